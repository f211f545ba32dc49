//! Places for connections. One that has shown no token yet is a newcomer: newcomers make room for each other and for
//! callers, and callers leave the last places to newcomers, so that the next health check or operator gets in.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{counter, gauge};
use tokio::sync::Notify;
use tokio::time::Instant;
use tollgate_contract::Role;

use crate::door::auth::Caller;

/// Nobody is cut off sooner: many clients that come back at once are newcomers for a moment.
const GRACE: Duration = Duration::from_millis(250);
/// For a newcomer's head, while newcomers have more than half of the places.
const SHORT_HEAD: Duration = Duration::from_secs(2);

/// How many places there are, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// All of them.
    all: usize,
    /// Of these, for callers of any role.
    callers: usize,
    /// Of these, for callers who only hand in.
    ingest: usize,
    /// For newcomers of one address.
    newcomers_of_one: usize,
}

impl Room {
    /// An eighth is for newcomers, a sixteenth for those who read and operate; a quarter is the most that newcomers
    /// of one address hold.
    pub(crate) fn of(all: usize) -> Self {
        let all = all.max(2);
        let callers = all - (all / 8).max(1);
        Self {
            all,
            callers,
            ingest: (callers - all / 16).max(1),
            newcomers_of_one: (all / 4).max(1),
        }
    }

    fn for_caller(&self, caller: &Caller) -> usize {
        match caller {
            Caller::Token { role, .. } if *role == Role::Ingest => self.ingest,
            Caller::Local | Caller::Token { .. } => self.callers,
        }
    }
}

/// All places of a listener.
pub(crate) struct Places {
    room: Room,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    held: HashMap<u64, Held>,
}

struct Held {
    /// See [`network`].
    from: IpAddr,
    is_new: bool,
    /// Whether a request is being answered.
    is_busy: bool,
    /// Since when it is busy or not.
    since: Instant,
    cut: Arc<Notify>,
}

/// What the next connection finds.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Free,
    /// This one leaves.
    Instead(u64),
    /// Nobody can be cut off before.
    NotBefore(Instant),
    /// Nobody can be cut off at all.
    Full,
}

impl Places {
    pub(crate) fn new(room: Room) -> Arc<Self> {
        Arc::new(Self {
            room,
            taken: Mutex::default(),
        })
    }

    /// A place for the next connection, at once or after another's grace.
    pub(crate) async fn enter(self: &Arc<Self>, address: IpAddr) -> Seat {
        let from = network(address);
        loop {
            let again = match self.try_enter(from, Instant::now()) {
                Ok(seat) => return seat,
                Err(again) => again,
            };
            tokio::time::sleep_until(again).await;
        }
    }

    fn try_enter(self: &Arc<Self>, from: IpAddr, now: Instant) -> Result<Seat, Instant> {
        let mut taken = self.taken();
        taken.cut_slow_heads(&self.room, now);
        match taken.next(&self.room, from, now) {
            Next::Free => {}
            Next::Instead(id) => taken.cut(id),
            Next::NotBefore(then) => return Err(then),
            Next::Full => return Err(now + GRACE),
        }
        let (id, cut) = taken.sit(from, now);
        gauge!("tollgate_api_connections").increment(1);
        Ok(Seat(Arc::new(Sitting {
            places: Arc::clone(self),
            id,
            from,
            cut,
        })))
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn sit(&mut self, from: IpAddr, now: Instant) -> (u64, Arc<Notify>) {
        self.next += 1;
        let cut = Arc::new(Notify::new());
        let held = Held {
            from,
            is_new: true,
            is_busy: false,
            since: now,
            cut: Arc::clone(&cut),
        };
        self.held.insert(self.next, held);
        (self.next, cut)
    }

    fn newcomers(&self) -> impl Iterator<Item = (&u64, &Held)> {
        self.held.iter().filter(|(_, held)| held.is_new)
    }

    fn next(&self, room: &Room, from: IpAddr, now: Instant) -> Next {
        let own = self.newcomers().filter(|(_, held)| held.from == from);
        let crowded = if own.count() >= room.newcomers_of_one {
            from
        } else if self.held.len() < room.all {
            return Next::Free;
        } else {
            match self.largest_crowd() {
                Some(crowded) => crowded,
                None => return Next::Full,
            }
        };
        let theirs = self.newcomers().filter(|(_, held)| held.from == crowded);
        // Who has not said anything goes before who is being answered.
        match theirs.min_by_key(|(_, held)| (held.is_busy, held.since)) {
            None => Next::Full,
            Some((_, held)) if held.since + GRACE > now => Next::NotBefore(held.since + GRACE),
            Some((id, _)) => Next::Instead(*id),
        }
    }

    /// The address with most newcomers.
    fn largest_crowd(&self) -> Option<IpAddr> {
        let mut crowds: HashMap<IpAddr, usize> = HashMap::new();
        for (_, held) in self.newcomers() {
            *crowds.entry(held.from).or_default() += 1;
        }
        let largest = crowds.into_iter().max_by_key(|(_, count)| *count);
        largest.map(|(from, _)| from)
    }

    fn cut_slow_heads(&mut self, room: &Room, now: Instant) {
        if self.newcomers().count() * 2 <= room.all {
            return;
        }
        let slow = |held: &Held| !held.is_busy && held.since + SHORT_HEAD <= now;
        let slow: Vec<u64> = self
            .newcomers()
            .filter(|(_, held)| slow(held))
            .map(|(id, _)| *id)
            .collect();
        for id in slow {
            self.cut(id);
        }
    }

    fn cut(&mut self, id: u64) {
        if let Some(held) = self.held.remove(&id) {
            held.cut.notify_one();
            counter!("tollgate_api_connections_cut_off_total").increment(1);
        }
    }

    /// Whether a newcomer is a caller from now on; the caller that has been idle for longest makes room.
    fn welcome(&mut self, id: u64, most: usize) -> bool {
        match self.held.get(&id) {
            None => return false,
            Some(held) if !held.is_new => return true,
            Some(_) => {}
        }
        let callers = self.held.iter().filter(|(_, held)| !held.is_new);
        if callers.clone().count() >= most {
            let idle = callers.filter(|(_, held)| !held.is_busy);
            let Some((&longest, _)) = idle.min_by_key(|(_, held)| held.since) else {
                return false;
            };
            self.cut(longest);
        }
        if let Some(held) = self.held.get_mut(&id) {
            held.is_new = false;
        }
        true
    }

    fn set_busy(&mut self, id: u64, is_busy: bool, now: Instant) {
        if let Some(held) = self.held.get_mut(&id) {
            held.is_busy = is_busy;
            held.since = now;
        }
    }
}

/// A connection's place, given back when the last one who knows of it is gone.
#[derive(Clone)]
pub(crate) struct Seat(Arc<Sitting>);

struct Sitting {
    places: Arc<Places>,
    id: u64,
    from: IpAddr,
    cut: Arc<Notify>,
}

impl Drop for Sitting {
    fn drop(&mut self) {
        self.places.taken().held.remove(&self.id);
        gauge!("tollgate_api_connections").decrement(1);
    }
}

/// Too many callers, all of them busy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Seat {
    /// Where its connection comes from, as far as it can be counted.
    pub(crate) fn from(&self) -> IpAddr {
        self.0.from
    }

    /// Its connection has shown who it is.
    pub(crate) fn belongs_to(&self, caller: &Caller) -> Result<(), Full> {
        let Sitting { places, id, .. } = &*self.0;
        let most = places.room.for_caller(caller);
        if places.taken().welcome(*id, most) {
            return Ok(());
        }
        Err(Full)
    }

    /// From the end of a request's head to the end of its answer.
    pub(crate) fn busy(&self) -> Busy {
        let Sitting { places, id, .. } = &*self.0;
        places.taken().set_busy(*id, true, Instant::now());
        Busy(self.clone())
    }

    /// Resolves when another one gets the place.
    pub(crate) async fn is_cut(&self) {
        self.0.cut.notified().await;
    }
}

pub(crate) struct Busy(Seat);

impl Drop for Busy {
    fn drop(&mut self) {
        let Sitting { places, id, .. } = &*self.0.0;
        places.taken().set_busy(*id, false, Instant::now());
    }
}

/// What one newcomer has all of: an address, or with IPv6 the network of 64 bits that it is in.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn address(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    fn caller(role: Role) -> Caller {
        let name = role.as_str().into();
        Caller::Token { name, role }
    }

    /// Sixteen places: two for newcomers, one for those who operate, at most four newcomers of one address.
    fn places() -> Arc<Places> {
        Places::new(Room::of(16))
    }

    async fn was_cut(seat: &Seat) -> bool {
        let cut = tokio::time::timeout(Duration::ZERO, seat.is_cut());
        cut.await.is_ok()
    }

    #[tokio::test]
    async fn newcomers_of_one_address_make_room_for_each_other_only() {
        let (places, now) = (places(), Instant::now());
        let other = places
            .try_enter(address(2), now)
            .unwrap_or_else(|_| panic!());
        let first: Vec<Seat> = (0..4)
            .map(|_| {
                places
                    .try_enter(address(1), now)
                    .unwrap_or_else(|_| panic!())
            })
            .collect();
        let again = places.try_enter(address(1), now).err();
        assert_eq!(again, Some(now + GRACE), "all of them have just come");
        let later = now + GRACE;
        let fifth = places
            .try_enter(address(1), later)
            .unwrap_or_else(|_| panic!());
        let mut cut = 0;
        for seat in &first {
            cut += usize::from(was_cut(seat).await);
        }
        assert_eq!(cut, 1);
        assert!(!was_cut(&fifth).await && !was_cut(&other).await);
    }

    #[tokio::test]
    async fn when_all_places_are_taken_the_largest_crowd_makes_room() {
        let (places, now) = (places(), Instant::now());
        let enter = |n, at| {
            places
                .try_enter(address(n), at)
                .unwrap_or_else(|_| panic!())
        };
        let mut all: Vec<Seat> = (0..4).map(|_| enter(1, now)).collect();
        all.extend((2..14).map(|n| enter(n, now)));
        let busy = all[0].busy();
        let healthy = enter(99, now + SECOND);
        let mut cut = vec![];
        for (n, seat) in all.iter().enumerate() {
            if was_cut(seat).await {
                cut.push(n);
            }
        }
        assert!(
            matches!(cut[..], [1..=3]),
            "one of the crowd that says nothing: {cut:?}"
        );
        assert!(!was_cut(&healthy).await);
        drop(busy);
    }

    #[tokio::test]
    async fn under_pressure_a_newcomer_has_two_seconds_for_a_head() {
        let (places, now) = (places(), Instant::now());
        let enter = |n, at| {
            places
                .try_enter(address(n), at)
                .unwrap_or_else(|_| panic!())
        };
        let slow: Vec<Seat> = (1..=8).map(|n| enter(n, now)).collect();
        let _ninth = enter(9, now + SHORT_HEAD);
        assert!(
            !was_cut(&slow[0]).await,
            "half of the places is no pressure"
        );
        let busy = slow[1].busy();
        let _tenth = enter(10, now + SHORT_HEAD);
        for (n, seat) in slow.iter().enumerate() {
            assert_eq!(was_cut(seat).await, n != 1, "{n}");
        }
        drop(busy);
    }

    #[tokio::test]
    async fn callers_leave_the_last_places_to_newcomers_and_idle_ones_leave_first() {
        let (places, now) = (places(), Instant::now());
        let enter = |n| {
            places
                .try_enter(address(n), now)
                .unwrap_or_else(|_| panic!())
        };
        let ingest = caller(Role::Ingest);
        let busy = |n| {
            let seat = enter(n);
            seat.belongs_to(&ingest).unwrap();
            seat.busy()
        };
        let callers: Vec<Busy> = (1..=13).map(busy).collect();
        let next = enter(14);
        assert_eq!(
            next.belongs_to(&ingest),
            Err(Full),
            "one is for those who operate"
        );
        assert_eq!(next.belongs_to(&caller(Role::Operate)), Ok(()));
        assert_eq!(next.belongs_to(&ingest), Ok(()), "known is known");
        let busy = next.busy();
        let last = enter(15);
        assert_eq!(last.belongs_to(&caller(Role::Operate)), Err(Full));
        let seats: Vec<Seat> = callers.iter().map(|busy| busy.0.clone()).collect();
        let mut callers = callers.into_iter();
        drop(callers.next());
        assert_eq!(last.belongs_to(&caller(Role::Operate)), Ok(()));
        assert!(was_cut(&seats[0]).await, "it was idle");
        drop(busy);
    }

    #[tokio::test]
    async fn a_place_is_given_back() {
        let (places, now) = (places(), Instant::now());
        for n in 0..100 {
            let seat = places
                .try_enter(address(1), now)
                .unwrap_or_else(|_| panic!("{n}"));
            drop(seat);
        }
        assert!(places.taken().held.is_empty());
    }

    #[test]
    fn small_rooms_have_places_for_everybody() {
        for all in 0..100 {
            let room = Room::of(all);
            assert!(
                room.all > room.callers && room.callers >= room.ingest,
                "{room:?}"
            );
            assert!(room.ingest > 0 && room.newcomers_of_one > 0, "{room:?}");
        }
        assert_eq!(Room::of(512).callers, 448);
    }

    #[test]
    fn a_newcomer_with_many_addresses_of_one_network_is_one() {
        let same =
            ["2001:db8::1", "2001:db8::ffff:0:0:1"].map(|text| network(text.parse().unwrap()));
        assert_eq!(same[0], same[1]);
        let mapped = network("::ffff:10.0.0.1".parse().unwrap());
        assert_eq!(mapped, address(1));
        assert_ne!(network(address(1)), network(address(2)));
    }
}
