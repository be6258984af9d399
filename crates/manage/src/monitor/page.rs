//! `GET /metrics` over TCP, for a Prometheus on this machine or, if the address says so, another one. Nothing else is answered
//! there.

use axum::Router;
use axum::body::Body;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

/// Connections at a time; others wait.
const CONNECTIONS_MAX: usize = 16;
/// The time that a connection may last: one question, its answer, and the pause before the next.
const CONNECTION_LASTS: Duration = Duration::from_secs(120);
/// The time that the head of a request may take.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// Parses `HOST:PORT`, or `PORT` on the loopback interface.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    text.parse().map_err(|_| format!("{text:?} is not an address; write 9877, 127.0.0.1:9877 or [::1]:9877"))
}

/// Listens at an address.
pub async fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Answers until `over` is true.
pub async fn listen(listener: TcpListener, router: Router, mut over: watch::Receiver<bool>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await.expect("it is never closed");
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = over.wait_for(|over| *over) => return,
        };
        let Ok((stream, _)) = accepted else {
            // Too few file descriptors, for example.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone().into_service::<hyper::body::Incoming>());
        tokio::spawn(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_buf_size(32 << 10);
            let connection = http.serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(CONNECTION_LASTS, connection).await;
            drop(permit);
        });
    }
}

/// The media type of Prometheus' text.
pub const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A body of text.
pub fn body(text: String) -> Body {
    Body::from(text)
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn a_port_alone_is_on_the_loopback_interface() {
        assert_eq!(address("9877").map(|address| address.to_string()), Ok("127.0.0.1:9877".into()));
        assert_eq!(address("[::]:1").map(|address| address.to_string()), Ok("[::]:1".into()));
        assert!(address("localhost").is_err() && address("70000").is_err());
    }
}
