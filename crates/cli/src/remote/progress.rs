//! Waiting for what the service works on: asks how far it is until it has ended, and shows it.

use std::process::ExitCode;
use std::time::Duration;

use indicatif::ProgressBar;
use serde::de::DeserializeOwned;
use tollgate_client::{Answer, Client};

use super::sentence;
use crate::talk::say;

/// How often to ask how far it is.
const PACE: Duration = Duration::from_millis(200);
/// Without a terminal, one line of progress per this many polls.
const ASKED_PER_LINE: u32 = 25;
/// At most this many questions in a row may go unanswered, e.g. while the service restarts.
const MAX_UNANSWERED: u32 = 150;

/// How far something is, of how much.
pub(super) struct Progress {
    pub(super) done: u64,
    pub(super) all: u64,
    pub(super) phase: String,
    /// The same without a terminal.
    pub(super) line: String,
}

/// What is waited for.
pub(super) struct Awaited<'a> {
    pub(super) name: &'a str,
    /// Where it is asked about.
    pub(super) path: &'a str,
    pub(super) bar: &'a ProgressBar,
}

/// Asks until it has ended, which is when an answer tells no progress; that answer.
pub(super) async fn wait<T: DeserializeOwned>(
    client: &Client,
    awaited: Awaited<'_>,
    progress: impl Fn(&T) -> Option<Progress>,
) -> anyhow::Result<Answer<T>> {
    let Awaited { name, path, bar } = awaited;
    let (mut asked, mut unanswered) = (0_u32, 0);
    loop {
        match client.get::<T>(path).await {
            Ok(answer) => {
                let Some(progress) = progress(&answer) else {
                    bar.finish_and_clear();
                    return Ok(answer);
                };
                (asked, unanswered) = (asked + 1, 0);
                bar.set_length(progress.all);
                bar.set_position(progress.done);
                bar.set_message(progress.phase);
                if bar.is_hidden() && asked.is_multiple_of(ASKED_PER_LINE) {
                    say(&progress.line);
                }
            }
            Err(_) if unanswered < MAX_UNANSWERED => unanswered += 1,
            Err(error) => {
                let later = format!("{name} continues in the background; see GET {path}");
                return Err(anyhow::Error::new(error).context(later));
            }
        }
        tokio::time::sleep(PACE).await;
    }
}

/// 0 if all went well, 1 if something in it did not, 2 if the whole failed.
pub(super) fn exit(all_well: anyhow::Result<bool>) -> ExitCode {
    match all_well {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            say(&format!("tollgate: {}", sentence(&error)));
            ExitCode::from(2)
        }
    }
}
