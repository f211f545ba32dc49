//! The settings that every process on a store must share to lead it, and how two of them differ.

use std::collections::BTreeMap;

use tollgate_config::Config;
use tollgate_core::leadership::ProcessId;
use tollgate_core::ports::Nodes;
use tollgate_core::shared_settings::{self, differences};

/// As text, which is kept beside the leader's name.
pub(crate) fn shared(config: &Config) -> String {
    let (gate, store) = (&config.gate, &config.store);
    let settings = BTreeMap::from([
        ("gate.margin", gate.margin.normalize().to_string()),
        ("gate.tolerance_ms", gate.tolerance_ms.to_string()),
        ("gate.patience_secs", gate.patience_secs.to_string()),
        ("store.connections", store.connections.to_string()),
    ]);
    shared_settings::text(&settings)
}

/// What differs, in one sentence for people; nothing if nothing does.
pub(crate) fn difference(theirs: &str, ours: &str) -> Option<String> {
    let shown = |value: Option<&str>| value.unwrap_or("unknown").to_owned();
    let told = differences(theirs, ours).into_iter().map(|it| {
        let (there, here) = (shown(it.there), shown(it.here));
        format!("{} is {there} for the leader and {here} here", it.key)
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// A process other than this one that had the last leader's settings and has not ended in order, by its name: one that
/// was killed counts, since nobody knows whether it comes back.
pub(crate) fn who_has_the_leaders(nodes: &Nodes, this: ProcessId) -> Option<String> {
    let others = nodes.processes.iter().filter(|line| line.process != this);
    let mut able = others.filter(|line| line.showing.cannot_lead.is_empty());
    let named = able.next().map(|line| line.showing.name.clone());
    let killed = || "the last leader".to_owned();
    named.or_else(|| nodes.seen.leader.filter(|it| *it != this).map(|_| killed()))
}

#[cfg(test)]
mod tests {
    use tollgate_core::id::Epoch;
    use tollgate_core::leadership::Seen;
    use tollgate_core::ports::{NodeLine, Showing};

    use super::*;

    fn nodes(leader: Option<i64>, processes: &[(i64, &str)]) -> Nodes {
        let line = |(process, cannot_lead): &(i64, &str)| NodeLine {
            process: ProcessId(*process),
            beat: 1,
            showing: Showing {
                name: format!("n{process}"),
                address: String::new(),
                version: String::new(),
                cannot_lead: (*cannot_lead).to_owned(),
            },
        };
        Nodes {
            seen: Seen {
                epoch: Epoch(3),
                beat: 1,
                leader: leader.map(ProcessId),
            },
            settings: String::new(),
            processes: processes.iter().map(line).collect(),
        }
    }

    #[test]
    fn only_an_orderly_end_of_all_others_leaves_nobody_with_the_leaders_settings() {
        let who = |leader, processes: &[(i64, &str)]| {
            who_has_the_leaders(&nodes(leader, processes), ProcessId(7))
        };
        let other = "gate.margin is 0.1 there";
        assert_eq!(who(Some(1), &[(1, ""), (7, other)]).as_deref(), Some("n1"));
        // It resigned, and its row is still there; another one stands by.
        assert_eq!(who(None, &[(1, ""), (7, other)]).as_deref(), Some("n1"));
        // Killed, and its row was lost.
        assert_eq!(
            who(Some(1), &[(7, other)]).as_deref(),
            Some("the last leader")
        );
        // Gone, or on its way out; others have other settings, too.
        assert_eq!(who(None, &[(7, other)]), None);
        let rest = [(1, "it is stopping"), (7, other), (8, other)];
        assert_eq!(who(None, &rest), None);
        // A takeover of ours whose answer was lost.
        assert_eq!(who(Some(7), &[(7, other)]), None);
    }

    #[test]
    fn a_difference_names_the_keys_and_both_values() {
        let ours = "gate.margin = 0.02\nstore.connections = 16";
        assert_eq!(difference(ours, ours), None);
        let said = difference("gate.margin = 0.1\nstore.connections = 16", ours);
        assert_eq!(
            said.unwrap(),
            "gate.margin is 0.1 for the leader and 0.02 here"
        );
        let said = difference("gate.margin = 0.02\ngate.new = 1", ours).unwrap();
        assert_eq!(
            said,
            "store.connections is unknown for the leader and 16 here, gate.new is 1 for the leader and unknown here"
        );
    }
}
