//! Settings that processes on one store must share, as text that is kept in the store, and how two such texts differ.

use std::collections::BTreeMap;

/// One `key = value` per line.
pub fn text<V: AsRef<str>>(settings: &BTreeMap<&str, V>) -> String {
    let lines = settings
        .iter()
        .map(|(key, value)| format!("{key} = {}", value.as_ref()));
    lines.collect::<Vec<_>>().join("\n")
}

/// A setting with two values; none where it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference<'a> {
    pub key: &'a str,
    pub there: Option<&'a str>,
    pub here: Option<&'a str>,
}

/// Our keys first, then those that only the other side has.
pub fn differences<'a>(theirs: &'a str, ours: &'a str) -> Vec<Difference<'a>> {
    let (theirs, ours) = (lines(theirs), lines(ours));
    let only_there = theirs.keys().filter(|key| !ours.contains_key(*key));
    let keys = ours.keys().chain(only_there);
    let found = keys.map(|key| Difference {
        key,
        there: theirs.get(key).copied(),
        here: ours.get(key).copied(),
    });
    found.filter(|found| found.there != found.here).collect()
}

fn lines(settings: &str) -> BTreeMap<&str, &str> {
    let pairs = settings.lines().filter_map(|line| line.split_once(" = "));
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_the_key_and_both_values() {
        let ours = text(&BTreeMap::from([("a", "1"), ("b", "x = y")]));
        assert_eq!(ours, "a = 1\nb = x = y");
        assert_eq!(differences(&ours, &ours), []);
        let found = differences("a = 2\nc = 3", &ours);
        let shown: Vec<_> = found.iter().map(|it| (it.key, it.there, it.here)).collect();
        assert_eq!(
            shown,
            [
                ("a", Some("2"), Some("1")),
                ("b", None, Some("x = y")),
                ("c", Some("3"), None)
            ]
        );
    }
}
