//! A TCP proxy that counts bytes and delays them: a network within one machine.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Bytes since the start.
#[derive(Debug, Default)]
struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
}

/// Forwards connections as long as the process runs.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    traffic: Arc<Traffic>,
}

impl Proxy {
    /// A proxy on a free port of this machine to `target`. Each byte arrives with a delay of `delay`, in
    /// both directions. The number of bytes in flight is not limited.
    ///
    /// # Errors
    /// If there is no free port.
    pub fn start(target: SocketAddr, delay: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let traffic = Arc::new(Traffic::default());
        let counted = traffic.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // If the target is gone, the connection ends, as without the proxy.
                if let Ok(server) = TcpStream::connect(target) {
                    let _ = join(client, server, delay, &counted);
                }
            }
        });
        Ok(Self { address, traffic })
    }

    /// The address of the proxy.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Bytes sent to the target.
    pub fn bytes_sent(&self) -> u64 {
        self.traffic.sent.load(Ordering::Relaxed)
    }

    /// Bytes received from the target.
    pub fn bytes_received(&self) -> u64 {
        self.traffic.received.load(Ordering::Relaxed)
    }
}

fn join(
    client: TcpStream,
    server: TcpStream,
    delay: Duration,
    traffic: &Arc<Traffic>,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (to_server, to_client) = (server.try_clone()?, client.try_clone()?);
    let counted = traffic.clone();
    forward(client, to_server, delay, move |bytes| {
        counted.sent.fetch_add(bytes, Ordering::Relaxed);
    });
    let counted = traffic.clone();
    forward(server, to_client, delay, move |bytes| {
        counted.received.fetch_add(bytes, Ordering::Relaxed);
    });
    Ok(())
}

/// One direction of a connection: a thread that reads, and a thread that waits and writes.
fn forward(
    mut from: TcpStream,
    mut to: TcpStream,
    delay: Duration,
    count: impl Fn(u64) + Send + 'static,
) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            count(len as u64);
            let due = Instant::now() + delay;
            if sender.send((due, buffer[..len].to_vec())).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in receiver {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // Tells the other side that no more bytes follow.
        let _ = to.shutdown(Shutdown::Both);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_late_and_are_counted() {
        let echo = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = echo.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = echo.accept().unwrap();
            let mut bytes = [0; 5];
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&bytes[..2]).unwrap();
        });
        let delay = Duration::from_millis(20);
        let proxy = Proxy::start(target, delay).unwrap();
        let start = Instant::now();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        stream.write_all(b"hello").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"he");
        assert!(start.elapsed() >= 2 * delay);
        assert_eq!((proxy.bytes_sent(), proxy.bytes_received()), (5, 2));
    }
}
