//! Money: whole minor units of one currency. Decimal text exists only at the edge.

use std::fmt;
use std::str::FromStr;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde::{Deserialize, Serialize};

/// An ISO 4217 currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Currency(iso_currency::Currency);

impl Currency {
    pub fn from_code(code: &str) -> Option<Self> {
        iso_currency::Currency::from_code(code).map(Self)
    }
    pub fn code(self) -> &'static str {
        self.0.code()
    }
    /// Digits behind the decimal point.
    pub fn digits(self) -> u32 {
        self.0.exponent().map_or(2, u32::from)
    }
}

impl TryFrom<String> for Currency {
    type Error = String;
    fn try_from(code: String) -> Result<Self, String> {
        Self::from_code(&code).ok_or_else(|| format!("{code:?} is not an ISO 4217 currency code"))
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> Self {
        currency.code().to_owned()
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// The largest amount of one payment. Far below what fits, so that sums over thousands of such
/// amounts still do.
const MOST_MINOR: i64 = 1_000_000_000_000_000;

/// An amount in whole minor units: 125.50 USD is 12550.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Money {
    pub minor: i64,
    pub currency: Currency,
}

impl Money {
    /// Of what is no money: zero of ISO 4217's own "no currency". Its totals are counts.
    pub const NONE: Self = Self {
        minor: 0,
        currency: Currency(iso_currency::Currency::XXX),
    };

    /// Parses a decimal text such as `125.5`; the error fits behind the field's name.
    pub fn parse(amount: &str, currency: Currency) -> Result<Self, String> {
        let plain = !amount.is_empty() && amount.chars().all(|c| c.is_ascii_digit() || c == '.');
        let value = Decimal::from_str(amount)
            .ok()
            .filter(|_| plain)
            .ok_or("must be a decimal number in a string, such as \"125.50\"")?
            .normalize();
        let digits = currency.digits();
        if value.scale() > digits {
            return Err(format!(
                "has more than the {digits} decimal digits of {currency}"
            ));
        }
        let minor = Decimal::from(10_i64.pow(digits))
            .checked_mul(value)
            .and_then(|minor| minor.to_i64())
            .filter(|minor| *minor <= MOST_MINOR)
            .ok_or("is too large")?;
        if minor <= 0 {
            return Err("must be greater than zero".to_owned());
        }
        Ok(Self { minor, currency })
    }

    /// The amount as decimal text with all digits of its currency.
    pub fn decimal(self) -> String {
        Decimal::new(self.minor, self.currency.digits()).to_string()
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.decimal(), self.currency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(amount: &str, code: &str) -> Result<i64, String> {
        Money::parse(amount, Currency::from_code(code).unwrap()).map(|m| m.minor)
    }

    #[test]
    fn amounts_have_no_more_digits_than_their_currency() {
        assert_eq!(parse("125.5", "USD"), Ok(12_550));
        assert_eq!(parse("125.50", "USD"), Ok(12_550));
        assert_eq!(parse("125.500", "USD"), Ok(12_550));
        assert_eq!(parse("7", "JPY"), Ok(7));
        assert_eq!(parse("1.234", "KWD"), Ok(1234));
        assert!(
            parse("7.5", "JPY")
                .unwrap_err()
                .contains("0 decimal digits")
        );
        assert!(
            parse("1.005", "EUR")
                .unwrap_err()
                .contains("2 decimal digits")
        );
    }

    #[test]
    fn what_is_not_an_amount_is_refused() {
        for bad in [
            "",
            "abc",
            "1e3",
            "-1",
            "0",
            "0.00",
            " 1",
            "1,5",
            "+1",
            "99999999999999999999",
            "10000000000000.01",
        ] {
            assert!(parse(bad, "USD").is_err(), "{bad:?} was accepted");
        }
        assert!(parse("10000000000000.00", "USD").is_ok(), "the largest");
    }

    #[test]
    fn decimal_text_has_all_digits() {
        let money = Money::parse("125.5", Currency::from_code("USD").unwrap()).unwrap();
        assert_eq!(money.to_string(), "125.50 USD");
    }

    #[test]
    fn what_is_no_money_has_a_currency_that_can_be_stored() {
        assert_eq!(Currency::from_code("XXX"), Some(Money::NONE.currency));
        assert_eq!(Money::NONE.minor, 0);
    }
}
