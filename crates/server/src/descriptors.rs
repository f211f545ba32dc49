//! File descriptors: how many this process may have, and how many its configuration allows it to use.
//! Each connection needs one.

use anyhow::ensure;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tollgate_config::Config;

use crate::downstreams::check_services;

/// Files, the store's own, timers, and a few connections to each downstream.
const BASE: u64 = 128;

/// Raises the soft limit to the hard one: the soft one is low for programs that use `select`, which we
/// do not. A system that refuses leaves us with what we have.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Checks the limit against the configuration. Connections to a bank come and go with rate and latency,
/// and hardly ever are as many as they may be: too few for all of them is worth a warning. Too few for
/// the API's alone stops the start, for its clients could take what the banks need.
pub(crate) fn check(config: &Config) -> anyhow::Result<()> {
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return Ok(());
    };
    if let Some(warning) = judge(limit, config)? {
        tracing::warn!("{warning}");
    }
    Ok(())
}

fn judge(limit: u64, config: &Config) -> anyhow::Result<Option<String>> {
    let door = count(config.http.max_connections);
    let least = BASE + door;
    ensure!(
        limit >= least,
        "http.max_connections: {door} connections need {least} file descriptors, and the limit is {limit}; raise it (ulimit -n, LimitNOFILE=), or lower http.max_connections"
    );
    let all = least + downstreams(config)? + count(config.store.connections);
    Ok((limit < all).then(|| {
        format!(
            "the configuration allows {all} connections and files at once, and the limit on file descriptors is {limit}: raise it (ulimit -n, LimitNOFILE=), or lower max_connections under http and downstream"
        )
    }))
}

/// The most connections to all downstreams.
fn downstreams(config: &Config) -> anyhow::Result<u64> {
    let mut banks = config.downstream.banks()?;
    banks.push(config.downstream.provider()?);
    let banks = banks.iter().map(|named| count(named.bank.max_connections));
    let receivers = config.downstream.notifications.urls.len();
    let receivers = count(receivers * tollgate_downstream::MAX_RECEIVER_CONNECTIONS);
    Ok(banks.sum::<u64>() + receivers + count(check_services::MAX_CONNECTIONS * 3))
}

fn count(connections: usize) -> u64 {
    u64::try_from(connections).unwrap_or(u64::MAX / 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        let limit = getrlimit(Resource::Nofile);
        // On many machines they are the same.
        let lower = Rlimit {
            current: Some(limit.maximum.map_or(4096, |hard| hard - 1)),
            ..limit
        };
        setrlimit(Resource::Nofile, lower).unwrap();
        raise_descriptor_limit();
        assert_eq!(getrlimit(Resource::Nofile).current, limit.maximum);
    }

    #[test]
    fn too_few_for_the_api_stop_the_start_and_too_few_for_all_are_worth_a_warning() {
        let config = Config::load(None).unwrap();
        let said = |limit| judge(limit, &config).map_err(|error| error.to_string());
        let refusal = said(639).unwrap_err();
        assert!(refusal.starts_with(
            "http.max_connections: 512 connections need 640 file descriptors, and the limit is 639"
        ));
        let warning = said(1024).unwrap().unwrap();
        assert!(
            warning.contains("allows 2448 ") && warning.contains("is 1024"),
            "{warning}"
        );
        assert_eq!(said(640).unwrap().map(|it| it.lines().count()), Some(1));
        assert_eq!(said(2448), Ok(None));
    }
}
