//! How figures read: medians with their spread, ratios per round, Markdown tables.

use crate::rounds::Samples;
use crate::sample::Sample;

/// One figure per round.
#[derive(Debug, Clone)]
pub(crate) struct Figures(Vec<f64>);

impl Figures {
    pub(crate) fn new(figures: Vec<f64>) -> Self {
        Self(figures)
    }

    pub(crate) fn of(samples: &Samples, figure: impl Fn(&Sample) -> f64) -> Self {
        Self(samples.iter().map(figure).collect())
    }

    pub(crate) fn rate(samples: &Samples) -> Self {
        Self::of(samples, Sample::per_second)
    }

    /// Those that were measured; none in no round.
    pub(crate) fn known(samples: &Samples, figure: impl Fn(&Sample) -> Option<f64>) -> Self {
        Self(samples.iter().filter_map(figure).collect())
    }

    pub(crate) fn commits(samples: &Samples) -> Self {
        Self::known(samples, |sample| sample.commits.map(f64::from))
    }

    pub(crate) fn commits_per_item(samples: &Samples) -> Self {
        Self::known(samples, |sample| {
            Some(f64::from(sample.commits?) / f64::from(sample.count))
        })
    }

    pub(crate) fn wal_per_item(samples: &Samples) -> Self {
        Self::known(samples, |sample| {
            Some(sample.wal_bytes? / f64::from(sample.count))
        })
    }

    pub(crate) fn times(&self, factor: f64) -> Self {
        Self(self.0.iter().map(|figure| figure * factor).collect())
    }

    /// Round by round: what one run of the machine did to both.
    pub(crate) fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a / b).collect())
    }

    pub(crate) fn median(&self) -> f64 {
        let sorted = self.sorted();
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => f64::NAN,
            length if length % 2 == 1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        }
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// `median (min–max)`, each written by `write`.
    pub(crate) fn show(&self, write: impl Fn(f64) -> String) -> String {
        let sorted = self.sorted();
        match (sorted.first(), sorted.last()) {
            (Some(&least), Some(&most)) if sorted.len() > 1 => {
                let median = write(self.median());
                format!("{median} ({}–{})", write(least), write(most))
            }
            (Some(&only), _) => write(only),
            (None, _) => "—".to_owned(),
        }
    }
}

/// `1,234,567`
pub(crate) fn whole(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(crate) fn percent(ratio: f64) -> String {
    format!("{:.0} %", ratio * 100.0)
}

pub(crate) fn one_digit(figure: f64) -> String {
    format!("{figure:.1}")
}

pub(crate) fn three_digits(figure: f64) -> String {
    format!("{figure:.3}")
}

pub(crate) fn two_digits(figure: f64) -> String {
    format!("{figure:.2}")
}

pub(crate) fn verdict(met: bool) -> String {
    if met { "met" } else { "**missed**" }.to_owned()
}

/// The table of replans, the same for every store.
pub(crate) fn replans(samples: &Samples) -> String {
    let latency = |of: fn(crate::sample::Latency) -> f64| {
        Figures::known(samples, |sample| sample.latency.map(of)).show(one_digit)
    };
    let slots = samples.first().map_or(0, |sample| sample.count);
    let longest = Figures::known(samples, |sample| sample.longest_ms);
    let head = [
        "slots placed anew",
        "slots/s",
        "step p50 ms",
        "step p99 ms",
        "longest step ms",
        "peak MiB",
    ];
    let row = [
        whole(f64::from(slots)),
        Figures::rate(samples).show(whole),
        latency(|l| l.p50_ms),
        latency(|l| l.p99_ms),
        longest.show(one_digit),
        Figures::of(samples, |sample| sample.peak_mib).show(whole),
    ];
    format!(
        "A replan after the limit was doubled, a thousand slots per transaction; a step is the time from asking to its commit, and the plan of the lane is held for no longer than that.\n\n{}",
        markdown(head, &[row])
    )
}

pub(crate) fn markdown<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let head = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(N));
    let rows = rows.iter().map(|row| format!("| {} |\n", row.join(" | ")));
    std::iter::once(head).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_as_median_and_spread() {
        let figures = Figures(vec![3000.0, 1000.0, 1_234_567.0]);
        assert_eq!(figures.show(whole), "3,000 (1,000–1,234,567)");
        assert_eq!(Figures(vec![7.0]).show(whole), "7");
        assert_eq!(Figures(vec![]).show(whole), "—");
        assert_eq!(Figures(vec![1.0, 2.0]).show(two_digits), "1.50 (1.00–2.00)");
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let (ours, limit) = (Figures(vec![50.0, 10.0]), Figures(vec![100.0, 20.0]));
        assert_eq!(ours.over(&limit).show(percent), "50 % (50 %–50 %)");
    }
}
