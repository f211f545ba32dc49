//! How the rounds of feeds read as a table.

use super::{PARTITIONS, PER_SECOND, Pair, Round, STEADY_PARTITIONS, count, steady_secs};
use crate::arguments::Size;
use crate::report::table::{Figures, markdown, percent, two_digits, verdict, whole};

/// Of the rate of the same file.
const GOAL: f64 = 0.8;
/// Lag of one second, and memory that grows by a tenth at most.
const MOST_LAG: f64 = 1000.0;
const MOST_GROWTH: f64 = 1.1;

pub(crate) fn section(size: Size, rounds: &[Round]) -> String {
    let of = |figure: fn(&Round) -> f64| Figures::new(rounds.iter().map(figure).collect());
    let random: Vec<Pair> = rounds.iter().map(|it| it.random).collect();
    let ascending: Vec<Pair> = rounds.iter().map(|it| it.ascending).collect();
    let rates = [
        rows("random ids", &random),
        rows("ascending ids", &ascending),
    ]
    .concat();
    let head = [
        "cell",
        "items/s",
        "CPU s",
        "peak MiB",
        "of the file",
        "≥ 80 %",
    ];
    let growth = of(|it| it.steady.end_mib / it.steady.middle_mib);
    let is_flat = of(|it| it.steady.second_lag).median() <= MOST_LAG;
    let steady = [[
        of(|it| it.steady.first_lag).show(whole),
        of(|it| it.steady.second_lag).show(whole),
        of(|it| it.steady.middle_mib).show(whole),
        of(|it| it.steady.end_mib).show(whole),
        verdict(is_flat && growth.median() <= MOST_GROWTH),
    ]];
    let steady_head = [
        "worst lag, first half",
        "second half",
        "MiB in the middle",
        "at the end",
        "flat",
    ];
    let (items, secs) = (whole(f64::from(count(size))), steady_secs(size));
    format!(
        "## Feeds\n\n\
         {items} payments of about 300 bytes for a later day: as a file through `POST /payments/bulk`, and as records of a topic with \
         {PARTITIONS} partitions, each on a new database. The broker is librdkafka's mock in a process of its own on this machine. The clock of the \
         file runs from the request until every line is admitted; that of the topic from the first look that finds some records read, all of them being there, until every record is admitted; \
         those that were read by then do not count. Random: as UUIDs of version 4 are. Ascending: the lines of the file go to the partitions in turn, so that neighbours in the \
         file's order are admitted in different chunks of the topic, and each chunk writes to many more pages of an index than a chunk of the file does.\n\n{rates}\n\
         A steady {PER_SECOND} records a second to {STEADY_PARTITIONS} of the partitions for {secs} s, on the server that has just taken in the topic with random ids, looked at once a second. Lag: records that were produced and are not durable yet. \
         Flat: in the second half no more lag than one second of records, and at the end at most a tenth more memory than in the middle.\n\n{steady}",
        rates = markdown(head, &rates),
        steady = markdown(steady_head, &steady),
    )
}

fn rows(ids: &str, pairs: &[Pair]) -> [[String; 6]; 2] {
    let of = |figure: fn(&Pair) -> f64| Figures::new(pairs.iter().map(figure).collect());
    let (file, feed) = (of(|it| it.file_per_second), of(|it| it.feed_per_second));
    let ratio = feed.over(&file);
    let none = String::new;
    [
        [
            format!("file through HTTP, {ids}"),
            file.show(whole),
            none(),
            none(),
            none(),
            none(),
        ],
        [
            format!("records of a topic, {ids}"),
            feed.show(whole),
            of(|it| it.feed_cpu_secs).show(two_digits),
            of(|it| it.feed_peak_mib).show(whole),
            ratio.show(percent),
            verdict(ratio.median() >= GOAL),
        ],
    ]
}
