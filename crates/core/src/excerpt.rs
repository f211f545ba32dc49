//! Texts from outside, as they are told and kept.

/// The first characters of a text, on one line and without anything a terminal would obey.
pub fn excerpt(text: &str, most_chars: usize) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(most_chars).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_short_and_on_one_line() {
        let table = [
            ("no money", 8, "no money"),
            ("no money", 2, "no"),
            ("é\u{1b}[31m\r\nred", 7, "é [31m "),
            ("", 5, ""),
        ];
        for (text, most, expected) in table {
            assert_eq!(excerpt(text, most), expected);
        }
    }
}
