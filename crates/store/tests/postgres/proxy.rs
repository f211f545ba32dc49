//! A line to the server that can be cut at the worst moment: after a commit has been sent, and
//! before its answer comes back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

pub(crate) struct Proxy {
    address: SocketAddr,
    cut_at_commit: Arc<AtomicBool>,
}

impl Proxy {
    pub(crate) async fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut_at_commit = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&cut_at_commit);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                tokio::spawn(forward(client, server, Arc::clone(&cut)));
            }
        });
        Self {
            address,
            cut_at_commit,
        }
    }

    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://postgres@{}/{database}", self.address)
    }

    /// The next commit is carried out, and nobody hears of it.
    pub(crate) fn cut_at_the_next_commit(&self) {
        self.cut_at_commit.store(true, Ordering::SeqCst);
    }
}

async fn forward(client: TcpStream, server: TcpStream, cut: Arc<AtomicBool>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let back = tokio::spawn(pass_on(from_server, to_client));
    if up_to_a_commit(from_client, to_server, &cut).await {
        back.abort();
    }
}

async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

/// True if a commit went through that must not be answered; then its answer is awaited at the
/// server's side by keeping the connection open until the server has taken it.
async fn up_to_a_commit(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, cut: &AtomicBool) -> bool {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let Ok(length @ 1..) = from.read(&mut buffer).await else {
            return false;
        };
        let commits = buffer[..length].windows(6).any(|bytes| bytes == b"COMMIT");
        let last = commits && cut.swap(false, Ordering::SeqCst);
        if to.write_all(&buffer[..length]).await.is_err() {
            return false;
        }
        if last {
            return true;
        }
    }
}
