//! Accounts, as they are shown to those who need not know them whole.

/// So much of an account's end is shown, and never more than a third of it.
const MOST_SHOWN_CHARS: usize = 4;
/// As long whatever it stands for: an account's length is part of it.
const HIDDEN: &str = "****";
/// A shorter account is looked for as a word of its own: any other word may have it in itself.
const SHORTEST_IN_WORDS_CHARS: usize = 6;
/// An account as short as this may be any word.
const SHORTEST_IN_TEXT_CHARS: usize = 3;
/// As an IBAN is printed.
const GROUP_CHARS: usize = 4;

/// Enough to tell two accounts of one person apart, too little to use one.
pub fn masked(account: &str) -> String {
    let chars = account.chars().count();
    let shown = MOST_SHOWN_CHARS.min(chars / 3);
    let end: String = account.chars().skip(chars - shown).collect();
    format!("{HIDDEN}{end}")
}

/// A text in which somebody else may have repeated the account.
pub fn masked_in(text: &str, account: &str) -> String {
    replaced_in(text, account, &masked(account))
}

/// The text with something else in the account's place, where it is repeated: in other letters, in groups as people
/// write it, or cut off at the end.
pub fn replaced_in(text: &str, account: &str, with: &str) -> String {
    let wanted: Vec<char> = account.chars().filter(|c| !is_between(*c)).collect();
    if account.chars().count() < SHORTEST_IN_TEXT_CHARS || wanted.is_empty() {
        return text.to_owned();
    }
    let (mut shown, mut rest, mut before) = (String::new(), text, None);
    while let Some(next) = rest.chars().next() {
        match found(rest, &wanted, before) {
            Some(length) => {
                shown.push_str(with);
                before = rest[..length].chars().next_back();
                rest = &rest[length..];
            }
            None => {
                shown.push(next);
                before = Some(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    shown
}

/// Whether both are one account, however it is grouped and in whichever letters.
pub fn is_same(one: &str, other: &str) -> bool {
    let plain = plain(one);
    one == other || (!plain.is_empty() && plain == self::plain(other))
}

/// How people and programs write an account, for stores that can only look for equal ones: as it is given, without what
/// is between its groups (as it is, in capitals, in small letters), and in groups of four.
pub fn spellings(account: &str) -> Vec<String> {
    let mut all = vec![account.to_owned()];
    let compact: String = account.chars().filter(|c| !is_between(*c)).collect();
    if compact.is_empty() {
        return all;
    }
    let capitals: Vec<char> = compact.to_uppercase().chars().collect();
    let groups = capitals.chunks(GROUP_CHARS).map(String::from_iter);
    let grouped = groups.collect::<Vec<_>>().join(" ");
    let (upper, lower) = (capitals.into_iter().collect(), compact.to_lowercase());
    for spelling in [compact, upper, lower, grouped] {
        if !all.contains(&spelling) {
            all.push(spelling);
        }
    }
    all
}

fn plain(account: &str) -> String {
    let chars = account.chars().filter(|c| !is_between(*c));
    chars.flat_map(char::to_lowercase).collect()
}

/// A text that those may read who must not see these accounts.
pub fn without_accounts(text: &str, accounts: &[String]) -> String {
    let hide = |text: String, account: &String| masked_in(&text, account);
    accounts.iter().fold(text.to_owned(), hide)
}

/// What people put between the groups of an account.
fn is_between(c: char) -> bool {
    c.is_whitespace() || "-.\u{2010}\u{2011}\u{2013}".contains(c)
}

/// How much of the beginning of a text is the account.
fn found(text: &str, wanted: &[char], before: Option<char>) -> Option<usize> {
    let is_short = wanted.len() < SHORTEST_IN_WORDS_CHARS;
    if is_short && before.is_some_and(char::is_alphanumeric) {
        return None;
    }
    let (mut chars, mut met) = (text.char_indices(), 0);
    let end = loop {
        let Some((at, c)) = chars.next() else {
            // The text was cut off in the middle of it.
            let is_most = met >= SHORTEST_IN_WORDS_CHARS;
            return is_most.then_some(text.len());
        };
        if wanted[met].to_lowercase().eq(c.to_lowercase()) {
            met += 1;
            if met == wanted.len() {
                break at + c.len_utf8();
            }
        } else if c == '…' && met >= SHORTEST_IN_WORDS_CHARS {
            return Some(at);
        } else if met == 0 || !is_between(c) {
            return None;
        }
    };
    let after = text[end..].chars().next();
    (!is_short || !after.is_some_and(char::is_alphanumeric)).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_shows_its_end_and_a_short_one_nearly_nothing() {
        let table = [
            ("DE89370400440532013000", "****3000"),
            ("123456789012", "****9012"),
            ("12345678901", "****901"),
            ("123456", "****56"),
            ("A-1", "****1"),
            ("A1", "****"),
            ("", "****"),
            ("счёт-№-00042", "****0042"),
        ];
        for (account, expected) in table {
            assert_eq!(masked(account), expected, "{account}");
        }
    }

    #[test]
    fn an_account_in_another_spelling_is_the_same() {
        let table = [
            (
                "DE02120300000000202051",
                "DE02 1203 0000 0000 2020 51",
                true,
            ),
            (
                "de02-1203-0000-0000-2020-51",
                "DE02120300000000202051",
                true,
            ),
            ("DE02120300000000202051", "DE02120300000000202052", false),
            ("-", ".", false),
            ("-", "-", true),
        ];
        for (one, other, expected) in table {
            assert_eq!(is_same(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn the_usual_spellings_of_an_account_are_looked_for() {
        let all = spellings("De02-1203-51");
        let expected = [
            "De02-1203-51",
            "De02120351",
            "DE02120351",
            "de02120351",
            "DE02 1203 51",
        ];
        assert_eq!(all, expected);
        assert_eq!(spellings("-"), ["-"]);
    }

    #[test]
    fn an_account_is_hidden_wherever_a_text_repeats_it() {
        let table = [
            ("DE8937", "DE8937 is shut: DE8937", "****37 is shut: ****37"),
            ("DE8937", "DE89 is shut", "DE89 is shut"),
            ("close", "it is closed", "it is closed"),
            ("close", "disclose", "disclose"),
            (
                "B-2",
                "no B-2 here, b2, B-22, AB-2",
                "no ****2 here, ****2, B-22, AB-2",
            ),
            ("12", "12 of 12", "12 of 12"),
            ("DE893704", "de89 3704 is shut", "****04 is shut"),
            ("DE89 3704", "DE89-3704,DE893704", "****704,****704"),
            ("DE893704", "shut: DE8937", "shut: ****04"),
            ("DE893704", "shut: DE8937…", "shut: ****04…"),
            ("DE893704", "shut: DE893", "shut: DE893"),
            ("DE893704", "DEDE893704", "DE****04"),
            ("счёт-42", "СЧЁТ 42 закрыт", "****42 закрыт"),
        ];
        for (account, text, expected) in table {
            assert_eq!(masked_in(text, account), expected, "{account}");
        }
    }
}
