//! The cable to the database: whole, cut (every connection is closed, new ones at once), or
//! silent (nothing gets through and nobody is told).

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Whole,
    Cut,
    Silent,
}

const STATES: [State; 3] = [State::Whole, State::Cut, State::Silent];
/// How long a state may go unnoticed.
const GLANCE: Duration = Duration::from_millis(20);

#[derive(Clone)]
pub(crate) struct Cable {
    pub(crate) address: SocketAddr,
    state: Arc<AtomicU8>,
    connections: Arc<AtomicUsize>,
}

impl Cable {
    pub(crate) fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let cable = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
            connections: Arc::default(),
        };
        let ours = cable.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                ours.connections.fetch_add(1, Ordering::SeqCst);
                let (ours, server) = (ours.clone(), server.clone());
                std::thread::spawn(move || ours.join(client, &server));
            }
        });
        cable
    }

    pub(crate) fn set(&self, state: State) {
        let place = STATES.iter().position(|s| *s == state).unwrap();
        self.state
            .store(u8::try_from(place).unwrap(), Ordering::SeqCst);
    }

    /// How often somebody has connected so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn state(&self) -> State {
        STATES[usize::from(self.state.load(Ordering::SeqCst))]
    }

    fn join(&self, client: TcpStream, server: &str) {
        while self.state() == State::Silent {
            std::thread::sleep(GLANCE);
        }
        if self.state() == State::Cut {
            return;
        }
        let Ok(server) = TcpStream::connect(server) else {
            return;
        };
        let (back, forth) = (self.clone(), self.clone());
        let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || back.carry(from, to));
        forth.carry(client, server);
    }

    fn carry(&self, mut from: TcpStream, mut to: TcpStream) {
        from.set_read_timeout(Some(GLANCE)).unwrap();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match self.state() {
                State::Cut => break,
                State::Silent => {
                    std::thread::sleep(GLANCE);
                    continue;
                }
                State::Whole => {}
            }
            match from.read(&mut buffer) {
                Ok(length @ 1..) if to.write_all(&buffer[..length]).is_ok() => {}
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => break,
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
