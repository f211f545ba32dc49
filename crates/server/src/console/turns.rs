//! Where a list goes on and back, how long it is, and the whole of it as a file.

use serde::Deserialize;
use serde_json::Value;

use super::call::query;
use super::shell::grouped;

/// What every list of the API says about its page.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ends {
    next: Option<Value>,
    #[serde(default)]
    previous: Option<Value>,
    #[serde(default)]
    count: Option<u64>,
    #[serde(default)]
    at_least: bool,
    #[serde(default)]
    archived: Option<ArchivedPart>,
}

/// What a list does not have because it is in the archive.
#[derive(Deserialize)]
pub(super) struct ArchivedPart {
    pub(super) what: String,
}

/// A list of the console: its page, its files, and what one and several of it are called.
pub(super) struct ListAt<'a> {
    pub(super) page: &'a str,
    pub(super) file: &'a str,
    pub(super) called: (&'a str, &'a str),
}

/// For the template `turns.html`.
#[derive(Default)]
pub(super) struct Turns {
    pub(super) previous: Option<String>,
    pub(super) next: Option<String>,
    /// Empty if it is not known.
    pub(super) counted: String,
    pub(super) files: Vec<(&'static str, String)>,
    /// What is in the archive and not in the list; empty if nothing is.
    pub(super) archived: String,
}

impl ListAt<'_> {
    /// `asked`: the conditions, by their names on the page and in the API.
    pub(super) fn turns(&self, asked: &[(&str, &str)], ends: &Ends) -> Turns {
        let with = |name: &'static str, value: &str| {
            let mut pairs = asked.to_vec();
            pairs.push((name, value));
            query(&pairs)
        };
        let page = |way: &'static str, token: &Value| {
            let token = match token {
                Value::String(token) => token.clone(),
                token => token.to_string(),
            };
            format!("{}{}", self.page, with(way, &token))
        };
        let file = |format: &str| format!("{}{}", self.file, with("format", format));
        Turns {
            previous: ends.previous.as_ref().map(|token| page("before", token)),
            next: ends.next.as_ref().map(|token| page("after", token)),
            counted: self.counted(ends),
            files: vec![("CSV", file("csv")), ("NDJSON", file("ndjson"))],
            archived: (ends.archived.as_ref()).map_or_else(String::new, |it| it.what.clone()),
        }
    }

    fn counted(&self, ends: &Ends) -> String {
        let (one, several) = self.called;
        match (ends.count, ends.at_least) {
            (None | Some(0), _) => String::new(),
            (Some(count), true) => format!("More than {} {several}", grouped(&count)),
            (Some(1), false) => format!("1 {one}"),
            (Some(count), false) => format!("{} {several}", grouped(&count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const JOBS: ListAt<'_> = ListAt {
        page: "/console/jobs",
        file: "/console/export/jobs",
        called: ("job", "jobs"),
    };

    fn turns(answer: Value) -> Turns {
        let ends: Ends = serde_json::from_value(answer).unwrap();
        JOBS.turns(&[("by", "ann & bob"), ("lane", "")], &ends)
    }

    #[test]
    fn a_list_keeps_its_conditions_from_page_to_page_and_in_its_files() {
        let middle = turns(json!({"next": "7.a", "previous": 9, "count": 3, "atLeast": false}));
        let next = "/console/jobs?by=ann%20%26%20bob&after=7.a";
        assert_eq!(middle.next.as_deref(), Some(next));
        let previous = "/console/jobs?by=ann%20%26%20bob&before=9";
        assert_eq!(middle.previous.as_deref(), Some(previous));
        let file = "/console/export/jobs?by=ann%20%26%20bob&format=csv";
        assert_eq!(middle.files[0], ("CSV", file.to_owned()));
    }

    #[test]
    fn a_list_says_how_long_it_is_as_people_do() {
        let counted = |count: Value, at_least: bool| {
            turns(json!({"next": null, "count": count, "atLeast": at_least})).counted
        };
        assert_eq!(counted(json!(1), false), "1 job");
        assert_eq!(counted(json!(1414), false), "1,414 jobs");
        assert_eq!(counted(json!(10_000), true), "More than 10,000 jobs");
        assert_eq!(counted(json!(0), false), "");
        assert_eq!(counted(json!(null), false), "");
    }
}
