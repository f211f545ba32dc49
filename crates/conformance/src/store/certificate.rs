//! `Lanes::certificate`: the proof of the rate, from a real send log.

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::certificate::Certificate;
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{Author, SettingKind};

use super::fixture::{Fixture, MINUTE, bank, given, hard_limit, plan, send, signed};
use super::planning::secs;

/// Sends 150 items in blocks, with pauses, under 50, then 20, then 30 a second.
async fn send_all(f: &dyn Fixture) -> Vec<Timestamp> {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched_many(150).await;
    let mut sent: Vec<Timestamp> = vec![];
    for (n, block) in items.chunks(5).enumerate() {
        if let (10 | 20, limit) = (n, 10 + n) {
            let lane = hard_limit(i64::try_from(limit).unwrap());
            let author = Author::new(format!("ops{n}"), "slower");
            f.store().change_lane(&bank(), lane, author).await.unwrap();
        }
        let block = f.turns(block.iter().map(send).collect()).await;
        sent.extend(given(&block).iter().map(|(_, at)| *at));
        let pause = [100, 250, 900, 30][n % 4];
        f.advance(Duration::from_millis(pause)).await;
    }
    assert!(sent.len() > 60, "{} turns", sent.len());
    sent
}

async fn certificate(f: &dyn Fixture, from: Timestamp, to: Timestamp) -> Certificate {
    f.store().certificate(&bank(), from, to).await.unwrap()
}

pub async fn the_certificate_equals_a_brute_force_count(f: &dyn Fixture) {
    let sent = send_all(f).await;
    let (begin, end) = (sent[0], sent[sent.len() - 1] + secs(1));
    let (a, b) = (sent[sent.len() / 3], sent[2 * sent.len() / 3]);
    for (from, to) in [(begin, end), (a, end), (begin, b), (a, b)] {
        let proof = certificate(f, from, to).await;
        let within: Vec<_> = sent.iter().filter(|t| (from..to).contains(*t)).collect();
        assert_eq!(proof.sends, within.len() as u64);
        assert_eq!(proof.first_send.as_ref(), within.first().copied());
        assert_eq!(proof.last_send.as_ref(), within.last().copied());
        assert!(proof.holds && proof.sends_above_limit == 0);
        let in_stretch = |from: Timestamp, seconds: i64| {
            let stretch = from..from + secs(seconds);
            u32::try_from(within.iter().filter(|t| stretch.contains(**t)).count()).unwrap()
        };
        // A second belongs to the stretch in which it ends.
        let second_to = |t: Timestamp| {
            let in_it = |u: &&Timestamp| **u <= t && **u > t - secs(1);
            u32::try_from(sent.iter().filter(in_it).count()).unwrap()
        };
        let worst = proof.worst_second.expect("something was sent");
        assert_eq!(
            Some(worst.sends),
            within.iter().map(|t| second_to(**t)).max()
        );
        assert!(worst.limit >= worst.sends.into());
        let window =
            |t: &Timestamp| Timestamp::from_second(t.as_second() - t.as_second() % 4).unwrap();
        let busiest = proof.worst_window.expect("something was sent");
        assert_eq!(
            Some(busiest.sends),
            within.iter().map(|t| in_stretch(window(t), 4)).max()
        );
        assert_eq!(busiest.sends, in_stretch(busiest.from, 4));
        assert_eq!(busiest.limit, 100.into());
        assert_eq!(
            proof.parts.iter().map(|m| u64::from(m.sends)).sum::<u64>(),
            proof.sends
        );
    }
}

pub async fn the_certificate_names_its_limits_and_who_set_them(f: &dyn Fixture) {
    let sent = send_all(f).await;
    let proof = certificate(f, sent[0], f.now().await).await;
    let told: Vec<_> = proof
        .limits
        .iter()
        .map(|l| (l.version, l.max_per_second, l.actor.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (1, 50.into(), "ops"),
            (2, 20.into(), "ops10"),
            (3, 30.into(), "ops20")
        ]
    );
    let history = f
        .store()
        .setting_history(SettingKind::Lane, "bank", 9)
        .await
        .unwrap();
    let since: Vec<_> = history.iter().rev().map(|s| s.created_at).collect();
    assert_eq!(
        proof.limits.iter().map(|l| l.since).collect::<Vec<_>>(),
        since
    );
    let text = proof.to_string();
    assert!(
        text.contains("20 a second") && text.contains("ops10: slower"),
        "{text}"
    );
}

/// What was sent after the first, of what the limits allowed from the first to the last.
pub async fn utilisation_is_what_was_sent_of_what_was_allowed(f: &dyn Fixture) {
    let sent = send_all(f).await;
    let (first, last) = (sent[0], sent[sent.len() - 1]);
    let proof = certificate(f, first, last + secs(1)).await;
    let mut allowed = 0.0;
    for (n, (limit, rate)) in proof.limits.iter().zip([50.0, 20.0, 30.0]).enumerate() {
        let begin = limit.since.max(first);
        let end = proof
            .limits
            .get(n + 1)
            .map_or(last, |next| next.since.min(last));
        allowed += rate * end.duration_since(begin).as_secs_f64();
    }
    let sends = f64::from(u32::try_from(sent.len() - 1).unwrap());
    let told = proof.utilisation.expect("something was sent");
    assert!(
        (told - sends / allowed).abs() < 1e-6,
        "{told} of {sends} / {allowed}"
    );
    assert!((0.0..=1.0).contains(&told));
}

pub async fn a_certificate_of_a_quiet_time_holds_and_has_no_peaks(f: &dyn Fixture) {
    let sent = send_all(f).await;
    let after = sent[sent.len() - 1] + signed(MINUTE);
    let proof = certificate(f, after, after + signed(MINUTE)).await;
    assert!(proof.holds && proof.sends == 0 && proof.utilisation.is_none());
    assert_eq!((proof.worst_second, proof.worst_window), (None, None));
    assert_eq!(proof.limits.len(), 1, "the one that was in force");
    f.lane(LaneChange::default()).await;
}

pub async fn rounds_at_the_same_time_move_each_turn_of_a_call_once(f: &dyn Fixture) {
    const CALLS: u32 = 100;
    f.lane(plan(100, 4)).await;
    for n in 0..CALLS {
        f.damage(&format!(
            "INSERT INTO attempt (item_type, item_id, run, kind, state, lane, idempotency_key, turn_at, era, detail)
             VALUES ('', '', 0, 'CALL', 'CALL', 'bank', '', {}, 0, '')",
            1_000_000_000_000_000 + i64::from(n)
        ))
        .await;
    }
    let now = f.now().await;
    let at = Timestamp::from_microsecond(1_000_000_000_000_000).unwrap();
    let round = async || {
        let store = f.store();
        while store.move_calls(now, CALLS).await.unwrap() > 0 {}
    };
    tokio::join!(round(), round(), round(), round());
    // What one round has passed over, another one has moved.
    round().await;
    let to = at + secs(5);
    let proof = f.store().certificate(&bank(), at, to).await.unwrap();
    assert_eq!(proof.sends, u64::from(CALLS));
}
