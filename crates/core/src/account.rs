//! Accounts, as they are shown to those who need not know them whole.

/// So much of an account's end is shown, and never more than a third of it.
const MOST_SHOWN_CHARS: usize = 4;
/// As long whatever it stands for: an account's length is part of it.
const HIDDEN: &str = "****";
/// A shorter account is not looked for in a text: any word may have it in itself.
const SHORTEST_IN_TEXT_CHARS: usize = 6;

/// Enough to tell two accounts of one person apart, too little to use one.
pub fn masked(account: &str) -> String {
    let chars = account.chars().count();
    let shown = MOST_SHOWN_CHARS.min(chars / 3);
    let end: String = account.chars().skip(chars - shown).collect();
    format!("{HIDDEN}{end}")
}

/// A text in which somebody else may have repeated the account.
pub fn masked_in(text: &str, account: &str) -> String {
    if account.chars().count() < SHORTEST_IN_TEXT_CHARS {
        return text.to_owned();
    }
    text.replace(account, &masked(account))
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
    fn an_account_is_hidden_wherever_a_text_repeats_it() {
        let table = [
            ("DE8937", "DE8937 is shut: DE8937", "****37 is shut: ****37"),
            ("DE8937", "DE89 is shut", "DE89 is shut"),
            ("close", "it is closed", "it is closed"),
        ];
        for (account, text, expected) in table {
            assert_eq!(masked_in(text, account), expected, "{account}");
        }
    }
}
