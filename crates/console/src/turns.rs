//! Where a list goes on and back, how long it is, and the whole of it as a file.

use tollgate_contract as contract;

use super::call::query;
use super::shell::grouped;

/// What every list of the API says about its page.
pub(super) struct Ends {
    next: Option<String>,
    previous: Option<String>,
    count: Option<u64>,
    at_least: bool,
    /// What the list does not have because it is in the archive.
    archived: Option<contract::ArchivedPart>,
}

/// A list of the API that is read page by page.
pub(super) trait Paged {
    fn ends(&self) -> Ends;
}

// A list that can leave out what is archived says so in the field that is named behind it.
macro_rules! paged {
    ($($list:ident $($archived:ident)?),+) => {
        $(impl Paged for contract::$list {
            fn ends(&self) -> Ends {
                Ends {
                    next: self.next.as_ref().map(ToString::to_string),
                    previous: self.previous.as_ref().map(ToString::to_string),
                    count: self.count.into(),
                    at_least: self.at_least,
                    archived: None$(.or(self.$archived.clone()))?,
                }
            }
        })+
    };
}

paged!(
    AuditLog archived,
    BulkList,
    CheckList,
    DeadLetterList,
    HeldList,
    InvoiceList archived,
    JobList
);

/// Items in doubt are all counted.
impl Paged for contract::InDoubtList {
    fn ends(&self) -> Ends {
        Ends {
            next: self.next.clone(),
            previous: self.previous.clone(),
            count: Some(self.count),
            at_least: false,
            archived: None,
        }
    }
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
        let page = |way: &'static str, token: &str| format!("{}{}", self.page, with(way, token));
        let file = |format: &str| format!("{}{}", self.file, with("format", format));
        Turns {
            previous: ends.previous.as_deref().map(|token| page("before", token)),
            next: ends.next.as_deref().map(|token| page("after", token)),
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
    use super::*;

    const JOBS: ListAt<'_> = ListAt {
        page: "/console/jobs",
        file: "/console/export/jobs",
        called: ("job", "jobs"),
    };

    fn turns(ends: &Ends) -> Turns {
        JOBS.turns(&[("by", "ann & bob"), ("lane", "")], ends)
    }

    #[test]
    fn a_list_keeps_its_conditions_from_page_to_page_and_in_its_files() {
        let middle = turns(&Ends {
            next: Some("7.a".to_owned()),
            previous: Some("9".to_owned()),
            count: Some(3),
            at_least: false,
            archived: None,
        });
        let next = "/console/jobs?by=ann%20%26%20bob&after=7.a";
        assert_eq!(middle.next.as_deref(), Some(next));
        let previous = "/console/jobs?by=ann%20%26%20bob&before=9";
        assert_eq!(middle.previous.as_deref(), Some(previous));
        let file = "/console/export/jobs?by=ann%20%26%20bob&format=csv";
        assert_eq!(middle.files[0], ("CSV", file.to_owned()));
    }

    #[test]
    fn a_list_says_how_long_it_is_as_people_do() {
        let counted = |count: Option<u64>, at_least: bool| {
            let ends = Ends {
                next: None,
                previous: None,
                count,
                at_least,
                archived: None,
            };
            turns(&ends).counted
        };
        assert_eq!(counted(Some(1), false), "1 job");
        assert_eq!(counted(Some(1414), false), "1,414 jobs");
        assert_eq!(counted(Some(10_000), true), "More than 10,000 jobs");
        assert_eq!(counted(Some(0), false), "");
        assert_eq!(counted(None, false), "");
    }
}
