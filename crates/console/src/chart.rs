//! A lane's rate of the last minutes as a picture: one bar per second, the hard limit, the plan.

use std::fmt::Write;

use jiff::Timestamp;

pub(super) struct Rate<'a> {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) seconds: &'a [(Timestamp, u32)],
    pub(super) limit: f64,
    pub(super) plan: f64,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 120.0;
/// On the right, for the numbers at the lines.
const MARGIN: f64 = 92.0;

impl Rate<'_> {
    /// Colours come from the page's style, so that the picture follows light and dark.
    pub(super) fn svg(&self) -> String {
        let sends = |(_, sends): &(Timestamp, u32)| *sends;
        let most = self.seconds.iter().map(sends).max().unwrap_or(0);
        let top = f64::from(most).max(self.limit).max(1.0) * 1.15;
        let y = |value: f64| HEIGHT - value / top * HEIGHT;
        let span = self.to.duration_since(self.from).as_secs_f64().max(1.0);
        let width = (WIDTH - MARGIN) / span;
        let mut svg = format!(
            "<svg class=\"rate\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"sends per second, \
             {most} at most, limit {}\">",
            self.limit
        );
        for (at, sends) in self.seconds {
            let x = at.duration_since(self.from).as_secs_f64() * width;
            if !(0.0..WIDTH - MARGIN).contains(&x) {
                continue;
            }
            let (value, class) = (
                f64::from(*sends),
                if f64::from(*sends) > self.limit {
                    "over"
                } else {
                    "bar"
                },
            );
            let _ = write!(
                svg,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                y(value),
                (width - 0.5).max(0.5),
                HEIGHT - y(value)
            );
        }
        Self::line(&mut svg, "limit", y(self.limit), self.limit);
        if self.plan < self.limit {
            Self::line(&mut svg, "plan", y(self.plan), self.plan);
        }
        svg.push_str("</svg>");
        svg
    }

    fn line(svg: &mut String, class: &str, y: f64, value: f64) {
        let _ = write!(
            svg,
            "<line class=\"{class}\" x1=\"0\" x2=\"{:.0}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"{class}\" x=\"{:.0}\" y=\"{:.1}\">{class} {value}</text>",
            WIDTH - MARGIN,
            WIDTH - MARGIN + 6.0,
            y + 4.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_above_the_limit_is_seen() {
        let at = |secs: i64| Timestamp::from_second(1_800_000_000 + secs).unwrap();
        let rate = Rate {
            from: at(0),
            to: at(180),
            seconds: &[(at(10), 50), (at(11), 51), (at(999), 1)],
            limit: 50.0,
            plan: 25.0,
        };
        let svg = rate.svg();
        assert_eq!(svg.matches("class=\"bar\"").count(), 1);
        assert_eq!(svg.matches("class=\"over\"").count(), 1);
    }
}
