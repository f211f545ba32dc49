//! `tollgate-client`, used as another program would, against `tollgate serve --sandbox`.

use tollgate_client::contract::{NewPayment, Party, Payment};
use tollgate_client::{Client, Error, PaymentQuery};

use crate::files::bulk::in_ten_days;
use crate::fixture::served::serve_with;

fn payment(id: &str, amount: &str) -> NewPayment {
    let party = |account: &str, name: &str| Party {
        account: account.to_owned(),
        name: name.to_owned(),
    };
    let debtor = party("DE02120300000000202051", "Acme");
    let creditor = party("DE02500105170137075030", "Bolt");
    NewPayment {
        execute_at: Some(in_ten_days()),
        reference: Some("invoice 42".to_owned()),
        ..NewPayment::new(id, amount, "USD", debtor, creditor)
    }
}

async fn use_it(client: &Client) -> Result<(), Error> {
    let payments = client.payments();
    let accepted = payments.submit(&payment("pay_1", "125.50")).await?;
    assert_eq!(accepted.http_status(), 201, "{}", accepted.raw());
    assert_eq!(accepted.status, "SCHEDULED");
    let again = payments.submit(&payment("pay_1", "125.50")).await?;
    assert_eq!(again.http_status(), 200, "{}", again.raw());

    let known = payments.get("pay_1").await?;
    let Payment::Known(planned) = &*known else {
        panic!("it has a slot: {}", known.raw());
    };
    assert_eq!(planned.amount, "125.50");
    assert_eq!(planned.reference.as_deref(), Some("invoice 42"));
    assert_eq!(Some(planned.scheduled_time), accepted.scheduled_time);

    let query = PaymentQuery {
        status: Some("SCHEDULED".to_owned()),
        ..PaymentQuery::default()
    };
    let page = payments.list(&query).await?;
    let ids: Vec<&str> = page.payments.iter().map(|it| &*it.payment_id).collect();
    assert_eq!(ids, ["pay_1"]);

    let missing = payments.get("pay_2").await.unwrap_err();
    let missing = missing.refused().unwrap();
    assert_eq!(missing.status, 404);
    assert_eq!(missing.code.as_deref(), Some("not_found"));
    assert!(missing.request_id.is_some(), "{missing:?}");

    let wrong = payments.submit(&payment("pay_3", "-1")).await.unwrap_err();
    let wrong = wrong.refused().unwrap();
    assert_eq!(wrong.status, 400);
    assert_eq!(wrong.code.as_deref(), Some("validation_failed"));
    assert!(wrong.details.contains_key("amount"), "{wrong:?}");

    let cancelled = payments.cancel("pay_1", "the customer called").await?;
    let Payment::Known(cancelled) = cancelled.into_value() else {
        panic!("it had a slot");
    };
    assert_eq!(cancelled.status, "CANCELLED");
    Ok(())
}

#[test]
fn another_program_submits_reads_and_lists_payments_and_tells_errors_apart() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("t.db").display());
    let served = serve_with(&["--sandbox", "--listen", "127.0.0.1:0", "--store", &store]);
    let address = format!("http://{}", served.address);
    let client = Client::builder(&address).build().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(use_it(&client)).unwrap();
    drop(served);
    let gone = runtime.block_on(client.payments().get("pay_1"));
    assert!(matches!(gone, Err(Error::Unreachable { .. })), "{gone:?}");
}
