//! The settings that every process on a store must share to lead it, and how two of them differ.

use std::collections::BTreeMap;

use crate::config::Config;

/// As text, which is kept beside the leader's name.
pub(crate) fn shared(config: &Config) -> String {
    let (gate, store) = (&config.gate, &config.store);
    let settings = BTreeMap::from([
        ("gate.margin", gate.margin.normalize().to_string()),
        ("gate.tolerance_ms", gate.tolerance_ms.to_string()),
        ("gate.patience_secs", gate.patience_secs.to_string()),
        ("store.connections", store.connections.to_string()),
    ]);
    let lines = settings
        .iter()
        .map(|(key, value)| format!("{key} = {value}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// What differs, in one sentence for people; nothing if nothing does.
pub(crate) fn difference(theirs: &str, ours: &str) -> Option<String> {
    let (theirs, ours) = (lines(theirs), lines(ours));
    let keys = ours
        .keys()
        .chain(theirs.keys().filter(|key| !ours.contains_key(*key)));
    let told = keys.filter_map(|key| {
        let (there, here) = (theirs.get(key), ours.get(key));
        let shown = |value: Option<&&str>| value.copied().unwrap_or("unknown").to_owned();
        (there != here).then(|| format!("{key} is {} there and {} here", shown(there), shown(here)))
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join(", "))
}

fn lines(settings: &str) -> BTreeMap<&str, &str> {
    let pairs = settings.lines().filter_map(|line| line.split_once(" = "));
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_the_keys_and_both_values() {
        let ours = "gate.margin = 0.02\nstore.connections = 16";
        assert_eq!(difference(ours, ours), None);
        let said = difference("gate.margin = 0.1\nstore.connections = 16", ours);
        assert_eq!(said.unwrap(), "gate.margin is 0.1 there and 0.02 here");
        let said = difference("gate.margin = 0.02\ngate.new = 1", ours).unwrap();
        assert_eq!(
            said,
            "store.connections is unknown there and 16 here, gate.new is 1 there and unknown here"
        );
    }
}
