//! W1 through HTTP: a whole Tollgate in this process, and a client that streams the file to it. The
//! clock stops when every line is admitted; the peak of memory is that of server and client.

use std::fs::File;
use std::io::{Read, Write, copy};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tollgate_server::{Config, Tollgate};

use super::target;
use crate::sample::Sample;
use crate::stopwatch::Lap;

/// How often the client asks how far the server is.
const PACE: Duration = Duration::from_millis(50);

pub(super) async fn measure(dir: &Path, input: PathBuf, count: u32) -> Result<Sample> {
    let mut config = Config::load(None)?;
    config.store.url = format!("sqlite:{}", target::file(dir).display());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let tollgate = Tollgate::start(&config).await?;
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(tollgate.serve(listener, async {
        let _ = stopped.await;
    }));
    let commits_before = target::commits(dir)?;
    let client = tokio::task::spawn_blocking(move || import(address, &input, count));
    let sample = client.await??;
    let commits = target::commits(dir)? - commits_before;
    let _ = stop.send(());
    served.await??;
    target::check_rows(dir, "SELECT count(*) FROM item_queue", count)?;
    Ok(Sample {
        commits: Some(commits),
        ..sample
    })
}

/// Streams a file of payments and waits until every line is admitted.
pub(crate) fn import(address: SocketAddr, input: &Path, count: u32) -> Result<Sample> {
    let lap = Lap::begin()?;
    let batch = upload(address, input)?;
    let acknowledged_secs = Some(lap.wall().as_secs_f64());
    let view = loop {
        let head = format!("GET /payments/bulk/{batch} HTTP/1.1");
        let view = exchange(address, &format!("{head}\r\n"), None)?;
        if view["state"] == "DONE" {
            break view;
        }
        std::thread::sleep(PACE);
    };
    let sample = lap.sample(count)?;
    ensure!(view["accepted"] == count, "not all were accepted: {view}");
    Ok(Sample {
        acknowledged_secs,
        ..sample
    })
}

fn upload(address: SocketAddr, input: &Path) -> Result<String> {
    let file = File::open(input)?;
    let length = file.metadata()?.len();
    let head = format!(
        "POST /payments/bulk HTTP/1.1\r\ncontent-type: application/x-ndjson\r\ncontent-length: {length}\r\n"
    );
    let answer = exchange(address, &head, Some(file))?;
    let batch = answer["batchId"].as_str();
    Ok(batch
        .with_context(|| format!("no batch: {answer}"))?
        .to_owned())
}

/// One request, one connection, one answer in JSON.
fn exchange(address: SocketAddr, head: &str, body: Option<File>) -> Result<Value> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "{head}host: localhost\r\nconnection: close\r\n\r\n")?;
    if let Some(mut body) = body {
        copy(&mut body, &mut stream)?;
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("half an answer")?;
    Ok(serde_json::from_str(body)?)
}
