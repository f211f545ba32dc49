//! Pages: so many of what is wanted, and where the next one begins.

use std::fmt;

use crate::id::check_item_id;

/// A page with a filter that no index serves looks at no more rows than these: it may be short, or
/// even empty, and still have a next one.
pub const MOST_LOOKED_AT: u32 = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T, K> {
    pub items: Vec<T>,
    /// Where the next page begins: after this. `None` on the last one.
    pub next: Option<K>,
    /// Where the page before this one ends: before this. `None` on the first one, and in a list that only goes on.
    pub previous: Option<K>,
}

/// Which page of a list in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageFrom<K> {
    Start,
    After(K),
    /// The page that ends before this.
    Before(K),
}

impl<K> PageFrom<K> {
    pub fn is_back(&self) -> bool {
        matches!(self, Self::Before(_))
    }

    pub fn place(&self) -> Option<&K> {
        match self {
            Self::Start => None,
            Self::After(place) | Self::Before(place) => Some(place),
        }
    }
}

impl PageFrom<PageToken> {
    /// Where the rows of a list by rank are read from, and whether upwards from there: `rises` is how the list goes.
    pub fn bounds(self, rises: bool) -> (PageToken, bool) {
        let upwards = rises != self.is_back();
        let place = match self {
            Self::Start if upwards => PageToken::BELOW_ALL,
            Self::Start => PageToken::ABOVE_ALL,
            Self::After(place) | Self::Before(place) => place,
        };
        (place, upwards)
    }
}

impl<K> From<Option<K>> for PageFrom<K> {
    fn from(after: Option<K>) -> Self {
        after.map_or(Self::Start, Self::After)
    }
}

/// How many rows a page needs: one more than it shows, to know whether there is another.
pub fn rows_needed(limit: u32, is_filtered: bool) -> u32 {
    let shown = limit.saturating_add(1);
    if is_filtered {
        shown.max(MOST_LOOKED_AT)
    } else {
        shown
    }
}

impl<T, K> Page<T, K> {
    /// The first `limit` of `rows` that are wanted. `asked` is how many rows were asked for: fewer
    /// of them mean that there are no more.
    pub fn of(
        rows: Vec<T>,
        asked: u32,
        limit: u32,
        wanted: impl Fn(&T) -> bool,
        key: impl Fn(&T) -> K,
    ) -> Self {
        let (limit, count) = (limit as usize, rows.len());
        let may_be_more = count >= asked as usize;
        let (mut items, mut next) = (vec![], None);
        for (n, row) in rows.into_iter().enumerate() {
            let is_last = n + 1 == count;
            next = (may_be_more || !is_last).then(|| key(&row));
            if wanted(&row) {
                items.push(row);
            }
            if items.len() >= limit {
                break;
            }
        }
        Self {
            items,
            next,
            previous: None,
        }
    }

    /// A page whose rows were read from its place on, nearest first, whichever way that is.
    pub fn beside(
        rows: Vec<T>,
        asked: u32,
        limit: u32,
        from: &PageFrom<K>,
        key: impl Fn(&T) -> K,
    ) -> Self
    where
        K: Clone,
    {
        Self::of(rows, asked, limit, |_| true, &key).turned(from, key)
    }

    /// In the order of the list. Beside a page lies at least the place that it was asked from.
    #[must_use]
    pub fn turned(mut self, from: &PageFrom<K>, key: impl Fn(&T) -> K) -> Self
    where
        K: Clone,
    {
        match from {
            PageFrom::Start => {}
            PageFrom::After(place) => {
                let first = self.items.first().map(key);
                self.previous = first.or_else(|| Some(place.clone()));
            }
            PageFrom::Before(place) => {
                self.items.reverse();
                let last = self.items.last().map(key);
                self.previous = self.next.take();
                self.next = last.or_else(|| Some(place.clone()));
            }
        }
        self
    }

    /// The same page of something else.
    pub fn map<U>(self, of: impl FnMut(T) -> U) -> Page<U, K> {
        Page {
            items: self.items.into_iter().map(of).collect(),
            next: self.next,
            previous: self.previous,
        }
    }
}

/// Where a list that is not in the order of its ids goes on: after what has this rank and this id. A
/// client hands it back unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageToken {
    pub rank: i64,
    pub id: String,
}

impl PageToken {
    /// Before everything, where ranks fall.
    pub const ABOVE_ALL: Self = Self {
        rank: i64::MAX,
        id: String::new(),
    };
    /// Before everything, where ranks rise.
    pub const BELOW_ALL: Self = Self {
        rank: i64::MIN,
        id: String::new(),
    };

    pub fn new(rank: i64, id: impl fmt::Display) -> Self {
        let id = id.to_string();
        Self { rank, id }
    }

    /// As it is written; `None` if nobody has written it.
    pub fn parse(text: &str) -> Option<Self> {
        let (rank, id) = text.split_once('.')?;
        check_item_id(id).ok()?;
        Some(Self::new(rank.parse().ok()?, id))
    }
}

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.rank, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bookmark_is_read_as_it_was_written_and_nothing_else_is_one() {
        for (rank, id) in [(0, "a"), (-7, "a.b:c-d"), (i64::MAX, "7")] {
            let told = PageToken::new(rank, id);
            assert_eq!(PageToken::parse(&told.to_string()), Some(told));
        }
        for bad in ["", "7", "7.", ".a", "x.a", "7.\0", "99999999999999999999.a"] {
            assert_eq!(PageToken::parse(bad), None, "{bad:?}");
        }
    }

    /// Of the numbers from 1 to `count`, those that divide by `by`.
    fn page(count: u32, by: u32, limit: u32) -> (Vec<u32>, Option<u32>) {
        let asked = rows_needed(limit, by > 1);
        let rows = (1..=count).take(asked as usize).collect();
        let page = Page::of(rows, asked, limit, |n| n % by == 0, |n| *n);
        (page.items, page.next)
    }

    /// Of the numbers from 1 to 5, from a place on or before it.
    fn beside(from: &PageFrom<u32>) -> (Vec<u32>, Option<u32>, Option<u32>) {
        let (limit, asked) = (2, rows_needed(2, false));
        let all = 1..=5;
        let rows: Vec<u32> = match from {
            PageFrom::Start => all.collect(),
            PageFrom::After(place) => all.filter(|n| n > place).collect(),
            PageFrom::Before(place) => all.rev().filter(|n| n < place).collect(),
        };
        let rows = rows.into_iter().take(asked as usize).collect();
        let page = Page::beside(rows, asked, limit, from, |n| *n);
        (page.items, page.previous, page.next)
    }

    #[test]
    fn a_list_goes_on_and_back_by_its_pages() {
        use PageFrom::{After, Before, Start};
        assert_eq!(beside(&Start), (vec![1, 2], None, Some(2)));
        assert_eq!(beside(&After(2)), (vec![3, 4], Some(3), Some(4)));
        assert_eq!(beside(&After(4)), (vec![5], Some(5), None));
        assert_eq!(beside(&Before(5)), (vec![3, 4], Some(3), Some(4)));
        assert_eq!(beside(&Before(3)), (vec![1, 2], None, Some(2)));
        assert_eq!(beside(&After(5)), (vec![], Some(5), None), "behind the end");
        assert_eq!(
            beside(&Before(1)),
            (vec![], None, Some(1)),
            "before the start"
        );
    }

    #[test]
    fn a_page_says_whether_there_is_another() {
        assert_eq!(page(0, 1, 2), (vec![], None));
        assert_eq!(page(1, 1, 2), (vec![1], None));
        assert_eq!(page(2, 1, 2), (vec![1, 2], None), "exactly full");
        assert_eq!(page(3, 1, 2), (vec![1, 2], Some(2)));
    }

    #[test]
    fn a_filtered_page_goes_on_where_it_stopped_looking() {
        assert_eq!(
            page(10, 4, 2),
            (vec![4, 8], Some(8)),
            "9 and 10 were not looked at"
        );
        assert_eq!(page(8, 4, 2), (vec![4, 8], None));
        assert_eq!(page(10, 7, 2), (vec![7], None));
        assert_eq!(
            page(5000, 999, 2),
            (vec![999], Some(1000)),
            "short, and not the last"
        );
        assert_eq!(
            page(5000, 4000, 2),
            (vec![], Some(1000)),
            "empty, and not the last"
        );
    }
}
