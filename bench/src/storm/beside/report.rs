//! W10 as a table.

use super::{Beside, LIMITS, Storm, Work, held};
use crate::arguments::Size;
use crate::ended;
use crate::report::table::{Figures, markdown, one_digit, percent, two_digits, verdict, whole};

/// Turns may be used so much later beside other work, in the mean.
const LATER_MS: f64 = 1.0;
const DROPPED: f64 = 0.01;
/// Of the limit, less than without it.
const LESS_USED: f64 = 0.01;
const LOCK_WAIT_MS: f64 = 50.0;

/// A work, and a storm of each round beside it.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) work: Work,
    pub(crate) taken: Vec<Beside>,
}

impl Cell {
    pub(crate) fn all(works: &[Work]) -> Vec<Self> {
        let cell = |work: &Work| Self {
            work: *work,
            taken: vec![],
        };
        works.iter().map(cell).collect()
    }

    fn figures(&self, figure: impl Fn(&Beside) -> f64) -> Figures {
        Figures::new(self.taken.iter().map(figure).collect())
    }

    fn name(&self) -> &'static str {
        match self.work {
            Work::Nothing => "nothing",
            Work::Release => "job: release",
            Work::Archive => "archive: move",
        }
    }

    fn row(&self) -> [String; 11] {
        [
            self.name().to_owned(),
            self.figures(|it| it.seen.arrivals).show(whole),
            self.figures(|it| it.seen.worst_second).show(whole),
            self.figures(|it| it.seen.utilisation * 100.0)
                .show(one_digit),
            self.figures(|it| it.seen.turn_late_ms).show(two_digits),
            self.figures(|it| it.seen.turn_late_p99_ms).show(one_digit),
            self.figures(|it| it.seen.late_p99_ms).show(one_digit),
            self.figures(|it| it.seen.turns_dropped).show(whole),
            self.figures(|it| it.lock_wait_ms).show(one_digit),
            self.figures(|it| it.done).show(whole),
            self.figures(|it| it.per_second).show(whole),
        ]
    }

    /// What the work did, beside the storms without any.
    fn judged(&self, without: &Self) -> String {
        let difference = |figure: fn(&Beside) -> f64| {
            self.figures(figure).median() - without.figures(figure).median()
        };
        let later = difference(|it| it.seen.turn_late_ms);
        let less = -difference(|it| it.seen.utilisation);
        let dropped = self.figures(|it| it.seen.turns_dropped / it.seen.arrivals.max(1.0));
        let dropped = dropped.median();
        let lock_wait = self.figures(|it| it.lock_wait_ms).median();
        format!(
            "{name}, medians: {later} ms later in the mean ({at_most}: at most {LATER_MS}), {dropped} of turns dropped \
             ({below}: below 1 %), {less} points less of the limit used ({used}: at most 1), longest lock wait {wait} ms \
             ({short}: at most {LOCK_WAIT_MS}). The longest of all rounds: {worst} ms, and {worst_without} ms without other work.{more}\n",
            name = self.name(),
            later = two_digits(later),
            at_most = verdict(later <= LATER_MS),
            dropped = percent(dropped),
            below = verdict(dropped < DROPPED),
            less = two_digits(less * 100.0),
            used = verdict(less <= LESS_USED),
            wait = one_digit(lock_wait),
            short = verdict(lock_wait <= LOCK_WAIT_MS),
            worst = one_digit(self.longest_lock_wait()),
            worst_without = one_digit(without.longest_lock_wait()),
            more = self.remarks(),
        )
    }

    fn longest_lock_wait(&self) -> f64 {
        let waits = self.taken.iter().map(|it| it.lock_wait_ms);
        waits.fold(0.0, f64::max)
    }

    fn remarks(&self) -> String {
        let previews: Vec<f64> = self.taken.iter().filter_map(|it| it.preview_secs).collect();
        let mut remarks = String::new();
        if !previews.is_empty() {
            let secs = Figures::new(previews).show(two_digits);
            remarks = format!(" The preview took {secs} s.");
        }
        if self.work == Work::Archive && self.taken.iter().any(|it| it.was_over) {
            remarks.push_str(" **The move was over before a storm was.**");
        }
        remarks
    }
}

const HEAD: [&str; 11] = [
    "beside the storm",
    "arrivals",
    "worst sliding second",
    "of the limit used, %",
    "turn used late, mean ms",
    "p99 at most, ms",
    "behind the slot p99 ms",
    "turns dropped",
    "longest lock wait seen, ms",
    "items done",
    "items a second",
];

/// The first cell is the one without other work.
pub(crate) fn section(size: Size, cells: &[Cell]) -> String {
    let rows: Vec<_> = cells.iter().map(Cell::row).collect();
    let verdicts: String = match cells {
        [without, with @ ..] => with.iter().map(|cell| cell.judged(without)).collect(),
        [] => String::new(),
    };
    format!(
        "## W10 other work beside a storm\n\n\
         A storm as in W3 under {limit} a second, of {payments} payments: without other work and with it, one after the other in each round. \
         All storms of a run start with the same database.{works} How late a turn is used is the gate's own measure, its p99 the \
         bound of a bucket; behind the slot is the bank's. Lock waits are looked for every few milliseconds on PostgreSQL, in \
         every session; SQLite has none.{small}\n\n{table}\n{verdicts}",
        limit = LIMITS[1],
        payments = whole(f64::from(Storm::of(size, LIMITS[1]).brief().payments)),
        works = works(size, cells),
        small = size.pick(" A small run.", ""),
        table = markdown(HEAD, &rows),
    )
}

fn works(size: Size, cells: &[Cell]) -> String {
    let work = |cell: &Cell| match cell.work {
        Work::Nothing => String::new(),
        Work::Release => format!(
            " A job releases {} held payments, from the first arrival on.",
            whole(f64::from(held(size)))
        ),
        Work::Archive => format!(
            " The service moves {} ended payments of one day into the archive, from its start on and at its own pace; items done \
             and their rate are counted from the first arrival on.",
            whole(f64::from(ended::count(size)))
        ),
    };
    cells.iter().map(work).collect()
}
