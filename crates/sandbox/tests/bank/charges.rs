//! The provider of invoices: charges, declines and questions by key, in the same ledger.

use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::json;
use tollgate_sandbox::{
    Bank, BankOptions,
    Effect::{Declined, Found, Hidden, NotFound, Repeated, Took},
};

use crate::{
    client::{Client, Reply, effects, payment},
    struck_by,
};

async fn charge(client: &mut Client, key: &str, invoice: &str) -> anyhow::Result<Reply> {
    let body =
        json!({"invoiceId": invoice, "customerId": "c1", "amount": "1.50", "currency": "DKK"});
    let request = Request::post("/charge").header("idempotency-key", key);
    let request = request.body(Full::from(body.to_string()))?;
    client.exchange(request).await
}

#[tokio::test]
async fn a_charge_takes_effect_once_per_key_and_is_found_by_it() -> anyhow::Result<()> {
    let bank = Bank::start(BankOptions::default())?;
    let mut client = Client::connect(&bank).await?;
    assert_eq!(
        client.get("/charge/k1").await?.status,
        StatusCode::NOT_FOUND
    );
    let first = charge(&mut client, "k1", "42").await?;
    assert_eq!(
        first.body,
        json!({"charged": true, "reference": "charge-1"})
    );
    let again = charge(&mut client, "k1", "42").await?;
    assert_eq!(again.body, first.body);
    assert_eq!(client.get("/charge/k1").await?.body, first.body);
    // Payment 42 and invoice 42 never meet.
    client.send("p1", &payment("42", "1.00", "EUR")).await?;
    assert!(bank.ledger().doubles().is_empty());
    assert_eq!(bank.ledger().effective()["invoice/42"], 1);
    assert_eq!(effects(&bank), [NotFound, Took, Repeated, Found, Took]);
    charge(&mut client, "k2", "42").await?;
    assert_eq!(
        bank.ledger().doubles(),
        ["invoice/42"],
        "another key is another charge"
    );
    Ok(())
}

#[tokio::test]
async fn a_declined_charge_moves_no_money_and_stays_declined_under_its_key() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("send 1 of payment 42: decline"))?;
    let mut client = Client::connect(&bank).await?;
    let no = charge(&mut client, "k1", "42").await?;
    assert_eq!(no.body["charged"], false);
    assert_eq!(charge(&mut client, "k1", "42").await?.body, no.body);
    assert_eq!(client.get("/charge/k1").await?.body, no.body);
    assert!(bank.ledger().effective().is_empty());
    assert_eq!(charge(&mut client, "k2", "42").await?.body["charged"], true);
    let expected = [Declined, Repeated, Found, Took];
    assert_eq!(effects(&bank), expected);
    Ok(())
}

#[tokio::test]
async fn what_settles_later_is_not_found_before_and_a_fault_may_deny_it() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("send 1: settle 24m; probe 2: 404"))?;
    let mut client = Client::connect(&bank).await?;
    charge(&mut client, "k1", "1").await?;
    assert_eq!(
        client.get("/charge/k1").await?.status,
        StatusCode::NOT_FOUND
    );
    charge(&mut client, "k2", "2").await?;
    assert_eq!(
        client.get("/charge/k2").await?.status,
        StatusCode::NOT_FOUND,
        "denied"
    );
    assert_eq!(client.get("/charge/k2").await?.status, StatusCode::OK);
    assert_eq!(effects(&bank), [Took, Hidden, Took, Hidden, Found]);
    Ok(())
}
