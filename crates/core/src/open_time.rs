//! A lane's open time: its calendar, less a pause whose end is known.

use std::sync::Arc;

use crate::Timestamp;
use crate::calendar::Calendar;

/// `[from, to)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    pub from: Timestamp,
    pub to: Timestamp,
}

#[derive(Debug, Clone, Default)]
pub struct OpenTime {
    calendar: Option<Arc<Calendar>>,
    closed: Option<Stretch>,
}

impl OpenTime {
    pub fn new(calendar: Option<Arc<Calendar>>, closed: Option<Stretch>) -> Self {
        Self { calendar, closed }
    }

    pub fn is_always(&self) -> bool {
        self.calendar.is_none() && self.closed.is_none()
    }

    /// The first open stretch that ends after `from`, cut off where `from` lies inside it. It may
    /// go on after its end; what counts is that all of it is open. `None` if time never opens again.
    pub fn stretch_from(&self, from: Timestamp) -> Option<Stretch> {
        let mut from = from;
        loop {
            let to = match &self.calendar {
                None => Timestamp::MAX,
                Some(calendar) => {
                    let open = calendar.stretch_from(from)?;
                    from = from.max(open.from);
                    open.to
                }
            };
            match self.closed.filter(|c| c.from < to && c.to > from) {
                None => return Some(Stretch { from, to }),
                Some(closed) if closed.from > from => {
                    let to = closed.from;
                    return Some(Stretch { from, to });
                }
                Some(closed) => from = closed.to,
            }
        }
    }

    /// The open stretches of `[from, to)`, in order.
    pub fn within(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = Stretch> + '_ {
        let mut at = from;
        std::iter::from_fn(move || {
            if at >= to {
                return None;
            }
            let open = self.stretch_from(at)?;
            at = open.to;
            let cut = Stretch {
                from: open.from,
                to: open.to.min(to),
            };
            (cut.from < cut.to).then_some(cut)
        })
    }
}
