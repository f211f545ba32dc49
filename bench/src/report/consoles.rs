//! The operator's console under load: what ten open ones cost a storm, and how long each page takes
//! when a million payments wait.

use std::io::{Read, Write, stderr};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::Plan;
use super::table::{Figures, markdown, one_digit, percent, two_digits, whole};
use crate::http;
use crate::measure::http::{NO_BANK, import};
use crate::payments::{self, Ids};
use crate::process::Process;
use crate::stopwatch::{Lap, day_ahead};
use crate::storm::{LIMITS, Seen, Storm};

const CONSOLES: usize = 10;
/// Each of them is also turned to another page so often.
const TURNED_EVERY: Duration = Duration::from_secs(2);
/// How often each page is asked for.
const LOOKS: u32 = 20;

const PAGES: [&str; 14] = [
    "/",
    "/console/lanes/default",
    "/console/lanes/default/windows.svg",
    "/console/lanes/default/rate.svg",
    "/console/payments",
    "/console/in-doubt",
    "/console/imports",
    "/console/invoices",
    "/console/schedules",
    "/console/status-checks",
    "/console/dead-letters",
    "/console/item-types",
    "/console/audit",
    "/console/totals",
];

pub(super) fn section(plan: &Plan<'_>) -> Result<String> {
    let storms = storms(plan)?;
    let pages = pages(plan)?;
    Ok(format!("{storms}\n{pages}"))
}

fn storms(plan: &Plan<'_>) -> Result<String> {
    let mut rounds: [Vec<Seen>; 2] = [vec![], vec![]];
    for _ in 0..plan.rounds {
        for (consoles, seen) in [0, CONSOLES].into_iter().zip(&mut rounds) {
            let found = storm(plan, consoles)?;
            writeln!(stderr(), "{consoles} consoles: {found:?}")?;
            seen.push(found);
        }
    }
    let rows: Vec<_> = [0, CONSOLES]
        .into_iter()
        .zip(&rounds)
        .map(|(consoles, seen)| row(consoles, seen))
        .collect();
    let head = [
        "open consoles",
        "arrivals",
        "worst sliding second",
        "utilisation",
        "turn used late, mean ms",
        "turns dropped",
        "behind the slot p50 ms",
        "p99 ms",
    ];
    Ok(format!(
        "## Consoles\n\n\
         A storm as in W3 under {limit} a second, without and with {CONSOLES} consoles: each holds the live page open and \
         loads another page every {turned} s. How late a turn is used is the gate's own measure; the rest is the bank's.\n\n{table}",
        limit = LIMITS[0],
        turned = TURNED_EVERY.as_secs(),
        table = markdown(head, &rows),
    ))
}

fn storm(plan: &Plan<'_>, consoles: usize) -> Result<Seen> {
    let folder = plan.scratch.folder()?;
    let url = format!("sqlite:{}", folder.path().join("storm.db").display());
    let mut open = None;
    let seen = Storm::of(plan.size, LIMITS[0]).strike(folder.path(), |bank| {
        let server = Process::serve(&url, bank, "")?;
        open = Some(Watchers::open(server.address, consoles));
        Ok(vec![server])
    })?;
    let shown = open.map_or(0, Watchers::close);
    writeln!(stderr(), "{shown} bytes were shown")?;
    Ok(seen)
}

fn row(consoles: usize, seen: &[Seen]) -> [String; 8] {
    let of = |figure: fn(&Seen) -> f64| Figures::new(seen.iter().map(figure).collect());
    [
        consoles.to_string(),
        of(|seen| seen.arrivals).show(whole),
        of(|seen| seen.worst_second).show(whole),
        of(|seen| seen.utilisation).show(percent),
        of(|seen| seen.turn_late_ms).show(two_digits),
        of(|seen| seen.turns_dropped).show(whole),
        of(|seen| seen.late_p50_ms).show(one_digit),
        of(|seen| seen.late_p99_ms).show(one_digit),
    ]
}

/// People who look.
struct Watchers {
    over: Arc<AtomicBool>,
    shown: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Watchers {
    fn open(server: SocketAddr, count: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let shown = Arc::new(AtomicU64::new(0));
        let threads = (0..count).flat_map(|number| {
            let live = (Arc::clone(&over), Arc::clone(&shown));
            let turning = Arc::clone(&over);
            [
                spawn(move || drop(watch(server, &live.0, &live.1))),
                spawn(move || turn_pages(server, number, &turning)),
            ]
        });
        Self {
            threads: threads.collect(),
            over,
            shown,
        }
    }

    /// How many bytes they were shown live.
    fn close(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
        self.shown.load(Ordering::Relaxed)
    }
}

/// The live page, until it is over or the server has gone.
fn watch(server: SocketAddr, over: &AtomicBool, shown: &AtomicU64) -> Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(TURNED_EVERY))?;
    write!(
        stream,
        "GET /console/live HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n"
    )?;
    let mut some = [0; 4096];
    while !over.load(Ordering::Relaxed) {
        let read = stream.read(&mut some)?;
        if read == 0 {
            break;
        }
        shown.fetch_add(read as u64, Ordering::Relaxed);
    }
    Ok(())
}

fn turn_pages(server: SocketAddr, first: usize, over: &AtomicBool) {
    for page in PAGES.iter().cycle().skip(first) {
        if over.load(Ordering::Relaxed) || http::get_text(server, page).is_err() {
            return;
        }
        sleep(TURNED_EVERY);
    }
}

fn pages(plan: &Plan<'_>) -> Result<String> {
    let count = plan.size.pick(100_000, 1_000_000);
    let folder = plan.scratch.folder()?;
    let input = folder.path().join("payments.ndjson");
    payments::write_for(&input, count, Ids::Ascending, &day_ahead())?;
    let store = format!("sqlite:{}", folder.path().join("pages.db").display());
    let server = Process::serve(&store, NO_BANK, "")?;
    let one_each = json!({"configName": "default", "maxPerSecond": 1, "maxPerWindow": 1,
                          "windowSizeSecs": 1, "reason": "as many windows as payments"});
    http::post(server.address, "/admin/rate-limit/config", &one_each)?;
    import(&server, &input, count)?;
    let rows = PAGES
        .iter()
        .map(|page| timed(server.address, page))
        .collect::<Result<Vec<_>>>()?;
    let head = ["page", "KiB", "ms"];
    Ok(format!(
        "## Pages\n\n\
         {LOOKS} looks at each page, one after the other, while {count} payments wait in the queue of one lane, each in a \
         window of its own; a connection each, median (least–most).\n\n{table}",
        count = whole(f64::from(count)),
        table = markdown(head, &rows),
    ))
}

fn timed(server: SocketAddr, page: &str) -> Result<[String; 3]> {
    let mut took = vec![];
    let mut bytes = 0;
    for _ in 0..LOOKS {
        let lap = Lap::begin()?;
        bytes = http::get_text(server, page)?.len();
        took.push(lap.wall().as_secs_f64() * 1000.0);
    }
    #[expect(clippy::cast_precision_loss, reason = "a page is small")]
    let kib = bytes as f64 / 1024.0;
    Ok([
        format!("`{page}`"),
        one_digit(kib),
        Figures::new(took).show(one_digit),
    ])
}
