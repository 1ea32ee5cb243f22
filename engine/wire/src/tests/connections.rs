//! How connections are opened, used again, lost and closed.

use std::time::Duration;

use agentx_types::{OutcomeKind, Transport};

use super::server::{Server, Step, good_answer};
use super::{ask, options, request, with_transport};
use crate::ConnectionReuse;

async fn pause(ms: u64) {
    tokio::time::timeout(Duration::from_millis(ms), std::future::pending::<()>()).await.ok();
}

/// Case 013: the server resets a pooled connection at the first byte of the second request.
fn stale(close: &Step) -> Server {
    let first = vec![Step::Read, Step::Write(good_answer(2)), Step::FirstByte, close.clone()];
    let others = vec![Step::Read, Step::Write(good_answer(2)), Step::Again];
    Server::start(vec![first, others])
}

#[test]
fn a_stale_connection_is_retried_once_and_counted() {
    for close in [Step::Reset, Step::Close] {
        let server = stale(&close);
        with_transport(options(server.port), |transport| async move {
            let first = transport.send(request()).await;
            assert!(first.is_ok() && !first.http.reused, "{:?}", first.kind);
            pause(30).await;
            let second = transport.send(request()).await;
            assert!(second.is_ok(), "{:?}", second.kind);
            assert_eq!((second.connection_retries, second.http.reused), (1, false));
            // Latency counts from the first attempt; the time lost shows before the connection.
            assert!(second.http.send_start.is_some_and(|at| at > second.start) && second.http.connecting.0 > 0);
            assert_eq!(transport.stats().connection_retries, 1);
            assert_eq!(transport.stats().connections_opened, 2);
            let third = transport.send(request()).await;
            assert!(third.is_ok() && third.http.reused && third.connection_retries == 0);
        });
    }
}

#[test]
fn the_retry_can_be_switched_off() {
    let server = stale(&Step::Reset);
    let mut options = options(server.port);
    options.retry_stale = false;
    with_transport(options, |transport| async move {
        transport.send(request()).await;
        pause(30).await;
        let second = transport.send(request()).await;
        let class = second.error().map(|error| error.class.name());
        assert_eq!(class.as_deref(), Some("connection_lost_before_response"));
        assert_eq!((second.connection_retries, second.http.reused), (0, true));
    });
}

#[test]
fn the_retry_takes_a_fresh_connection_though_others_lie_idle() {
    // Two pooled connections, both stale: a retry on the second would fail again.
    let doomed = vec![Step::Read, Step::Wait(30), Step::Write(good_answer(1)), Step::FirstByte, Step::Reset];
    let good = vec![Step::Read, Step::Write(good_answer(1)), Step::Again];
    let server = Server::start(vec![doomed.clone(), doomed, good]);
    with_transport(options(server.port), |transport| async move {
        let (first, second) = tokio::join!(transport.send(request()), transport.send(request()));
        assert!(first.is_ok() && second.is_ok());
        pause(30).await;
        let third = transport.send(request()).await;
        assert!(third.is_ok(), "{:?}", third.kind);
        assert_eq!((third.connection_retries, third.http.reused), (1, false));
        assert_eq!(server.connections(), 3);
    });
}

#[test]
fn a_fresh_connection_is_never_retried() {
    for close in [Step::Reset, Step::Close] {
        let server = Server::start(vec![vec![Step::Read, close]]);
        let outcome = ask(options(server.port));
        let class = outcome.error().map(|error| error.class.name());
        assert_eq!(class.as_deref(), Some("connection_lost_before_response"));
        assert_eq!((outcome.connection_retries, server.connections()), (0, 1));
    }
}

#[test]
fn a_reused_connection_that_answered_a_byte_is_not_retried() {
    let first =
        vec![Step::Read, Step::Write(good_answer(1)), Step::Read, Step::Write(b"HTTP/1.1 2".to_vec()), Step::Close];
    let server = Server::start(vec![first]);
    with_transport(options(server.port), |transport| async move {
        assert!(transport.send(request()).await.is_ok());
        let second = transport.send(request()).await;
        let class = second.error().map(|error| error.class.name());
        assert_eq!(class.as_deref(), Some("stream_disconnect"));
        assert_eq!((second.connection_retries, server.connections()), (0, 1));
    });
}

#[test]
fn idle_connections_are_closed_by_the_client() {
    let server = Server::answering(vec![Step::Write(good_answer(1))]);
    let mut options = options(server.port);
    options.keep_alive = Duration::from_millis(80);
    with_transport(options, |transport| async move {
        assert!(transport.send(request()).await.is_ok());
        pause(20).await;
        assert!(transport.send(request()).await.is_ok());
        assert_eq!((server.connections(), server.closed()), (1, 0));
        pause(300).await;
        assert_eq!(server.closed(), 1, "closed without being asked for");
        assert!(transport.send(request()).await.is_ok());
        assert_eq!(server.connections(), 2);
    });
}

#[test]
fn reuse_can_be_forbidden_or_kept_to_a_stream() {
    let of_stream = |ordinal| {
        let mut request = request();
        request.stream_ordinal = ordinal;
        request
    };
    for (reuse, expected) in [(ConnectionReuse::Pooled, 1), (ConnectionReuse::Never, 4), (ConnectionReuse::Sticky, 2)] {
        let server = Server::answering(vec![Step::Write(good_answer(1))]);
        let mut options = options(server.port);
        options.connection_reuse = reuse;
        with_transport(options, |transport| async move {
            for ordinal in [0, 1, 0, 1] {
                let outcome = transport.send(of_stream(ordinal)).await;
                assert!(outcome.is_ok(), "{:?}", outcome.kind);
            }
        });
        assert_eq!(server.connections(), expected, "{reuse:?}");
    }
}

#[test]
fn streams_take_the_urls_in_turn_and_stay() {
    let servers = [(), ()].map(|()| Server::answering(vec![Step::Write(good_answer(1))]));
    let mut options = options(servers[0].port);
    options.urls.push(format!("http://localhost:{}/v1", servers[1].port));
    options.connection_reuse = ConnectionReuse::Never;
    with_transport(options, |transport| async move {
        for ordinal in [0, 1, 2, 0, 0] {
            let mut request = request();
            request.stream_ordinal = ordinal;
            let outcome = transport.send(request).await;
            assert!(outcome.is_ok(), "{:?}", outcome.kind);
        }
    });
    // `localhost` may stand for two addresses of which one refuses: all are tried.
    assert_eq!(servers.map(|server| server.connections()), [4, 1]);
}

#[test]
fn cancelling_closes_at_once() {
    let server = Server::start(vec![vec![Step::Read, Step::Write(good_answer(3)[..200].to_vec()), Step::AwaitClose]]);
    with_transport(options(server.port), |transport| async move {
        let open = actix_rt::spawn(transport.send(request()));
        pause(50).await;
        assert_eq!(server.closed(), 0);
        // One that has not been polled yet is cancelled too.
        let waiting = transport.send(request());
        transport.cancel_all();
        for outcome in [open.await.ok(), Some(waiting.await)] {
            assert!(matches!(outcome.map(|outcome| outcome.kind), Some(OutcomeKind::Cancelled)));
        }
        pause(50).await;
        assert_eq!((server.connections(), server.closed()), (1, 1));
    });
    let server = Server::answering(vec![Step::Write(good_answer(1))]);
    with_transport(options(server.port), |transport| async move {
        transport.cancel_all();
        assert!(transport.send(request()).await.is_ok(), "later requests are not cancelled");
    });
}

#[test]
fn http_timings_add_up() {
    let server = Server::answering(vec![Step::Wait(20), Step::Write(good_answer(4))]);
    with_transport(options(server.port), |transport| async move {
        let outcomes = [transport.send(request()).await, transport.send(request()).await];
        for (outcome, reused) in outcomes.iter().zip([false, true]) {
            let http = outcome.http;
            assert_eq!(http.reused, reused);
            let instants = [
                Some(outcome.start),
                http.send_start,
                http.send_end,
                http.first_byte,
                outcome.head,
                outcome.content_times.first().copied(),
                http.last_byte,
                Some(outcome.end),
            ];
            let known: Vec<_> = instants.into_iter().flatten().collect();
            assert!(known.len() == 8 && known.is_sorted(), "{instants:?}");
            assert!((known[3] - known[2]).as_millis() > 15.0, "the server waited");
            assert!(http.blocked.0 >= 0 && http.dns.0 == 0 && (http.connecting.0 > 0) != reused);
            assert!(
                http.bytes_sent > 50 && http.chunks_sent == 1 && http.bytes_received > 300 && http.chunks_received >= 1
            );
        }
        let stats = transport.stats();
        assert!(stats.bytes_sent > 2 * outcomes[0].http.bytes_sent && stats.bytes_received > 600);
    });
}
