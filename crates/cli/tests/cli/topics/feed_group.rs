//! A consumer group that shows Kafka's own tools where a feed stands.

use std::time::Duration;

use super::feed_input::at_0;
use super::feeds::{cluster, feed, record, wait_for_paid, wait_until};
use crate::fixture::kafka::Kafka;
use crate::fixture::pair::{Pair, pair};
use crate::fixture::served::eventually_or;

const LONG: Duration = Duration::from_mins(1);
const GROUP: &str = "tollgate";

fn shows(kafka: &mut Kafka, position: i64) {
    eventually_or("the group shows it", LONG, || {
        let shown = kafka.committed(GROUP, "payments")[0];
        (shown == position)
            .then_some(())
            .ok_or(format!("{shown} for {position}"))
    });
}

/// Somebody who moves the group's offset forward, or a database restored from a backup, would otherwise lose payments.
#[test]
fn a_group_shows_where_a_feed_stands_and_is_never_read() {
    let mut kafka = cluster();
    let text = format!("{}group = \"{GROUP}\"\n", feed(&kafka));
    let first = pair(&text);
    kafka.produce("payments", &["p0", "p1", "p2"].map(|id| at_0(record(id))));
    wait_for_paid(&first, &["p0", "p1", "p2"]);
    shows(&mut kafka, 3);
    let Pair {
        runtime,
        bank,
        setting,
        server,
    } = first;
    assert_eq!(server.stop(), Some(0));

    kafka.produce("payments", &["p3", "p4"].map(|id| at_0(record(id))));
    kafka.commit(GROUP, "payments", 0, 1000);
    let server = setting.start("127.0.0.1:0");
    let pair = Pair {
        runtime,
        bank,
        setting,
        server,
    };
    wait_for_paid(&pair, &["p0", "p1", "p2", "p3", "p4"]);
    shows(&mut kafka, 5);
    let feed = wait_until(&pair, "all is read", |feed| feed["lag"] == 0);
    assert_eq!(feed["partitions"][0]["position"], 5);
    assert_eq!(pair.server.stop(), Some(0));
}
