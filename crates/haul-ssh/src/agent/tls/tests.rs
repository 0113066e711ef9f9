use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::error::{ErrorKind, Result};
use rustls::{ClientConnection, StreamOwned};

use super::handshake::Halves;
use super::*;

/// Bound of every wait in these tests.
const BOUND: Duration = Duration::from_secs(60);

fn until() -> Instant {
    Instant::now() + BOUND
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
    let far = listener.accept().expect("accepted").0;
    for stream in [&near, &far] {
        stream.set_read_timeout(Some(BOUND)).expect("set");
    }
    (near, far)
}

fn identity() -> Identity {
    Identity::new().expect("a key")
}

/// Both ends of a handshake; each expects the given key of the other.
fn shake(
    near: &Identity,
    expected: Fingerprint,
    far: &Identity,
    suites: &Suites,
) -> (Result<Halves>, Result<Halves>, TcpStream, TcpStream) {
    let (here, there) = pair();
    let acceptor = far.acceptor(near.fingerprint, suites).expect("a configuration");
    let connector = near.connector(expected, &Suites::default()).expect("a configuration");
    let (accepted, connected) = std::thread::scope(|scope| {
        let accepting = scope.spawn(|| {
            let accepted = accept(&there, acceptor, until());
            if accepted.is_err() {
                let _ = there.shutdown(std::net::Shutdown::Both);
            }
            accepted
        });
        let connected = connect(&here, connector, until());
        if connected.is_err() {
            let _ = here.shutdown(std::net::Shutdown::Both);
        }
        (accepting.join().expect("no panic"), connected)
    });
    (connected, accepted, here, there)
}

fn connected(suites: &Suites) -> (Halves, Halves, TcpStream, TcpStream) {
    let (near, far) = (identity(), identity());
    let (connected, accepted, here, there) = shake(&near, far.fingerprint, &far, suites);
    (connected.expect("connected"), accepted.expect("accepted"), here, there)
}

fn content(reader: &mut RecordReader, from: &mut dyn Read, count: usize) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    while all.len() < count {
        let some = reader.content(from)?;
        assert!(!some.is_empty(), "it ended after {} bytes", all.len());
        let taken = some.len().min(count - all.len());
        all.extend_from_slice(&some[..taken]);
        reader.taken(taken);
    }
    Ok(all)
}

fn noise(count: usize) -> Vec<u8> {
    (0..count as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8).collect()
}

#[test]
fn content_goes_both_ways_in_every_suite() {
    let all = Suites::default();
    assert_eq!(all.names().len(), 3);
    for name in all.names() {
        let suites = Suites::named(std::slice::from_ref(&name)).expect("a suite");
        let ((mut out, mut back), (mut answer, mut input), mut here, mut there) = connected(&suites);
        let sent = noise(3_000_001);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                out.write(&mut here.try_clone().expect("copied"), &[&sent[..5], &[], &sent[5..40_000], &sent[40_000..]]).expect("sent")
            });
            assert!(content(&mut input, &mut there, sent.len()).expect("it came") == sent, "{name}");
        });
        answer.write(&mut there, &[b"ans", b"wer"]).expect("sent");
        assert_eq!(content(&mut back, &mut here, 6).expect("it came"), b"answer");
    }
    assert!(Suites::named(&["TLS_RSA_WITH_RC4_128_MD5".into()]).is_err());
    assert!(Suites::named(&[]).is_err());
}

#[test]
fn only_the_announced_keys_are_accepted() {
    let (near, far, other) = (identity(), identity(), identity());
    // The connecting end expects another key than the accepting end has.
    let (connected, accepted, ..) = shake(&near, other.fingerprint, &far, &Suites::default());
    assert!(connected.is_err() && accepted.is_err());
    // The accepting end expects another key than the connecting end has.
    let (here, there) = pair();
    let acceptor = far.acceptor(near.fingerprint, &Suites::default()).expect("a configuration");
    let connector = other.connector(far.fingerprint, &Suites::default()).expect("a configuration");
    std::thread::scope(|scope| {
        scope.spawn(|| connect(&here, connector, until()));
        assert!(rejects(&there, acceptor));
    });
    // A client without a key is refused: one of rustls that trusts every server.
    let (here, there) = pair();
    let acceptor = far.acceptor(near.fingerprint, &Suites::default()).expect("a configuration");
    let builder = ClientConfig::builder_with_provider(Suites::default().provider()).with_protocol_versions(&[&TLS13]).expect("TLS 1.3");
    let config = builder.dangerous().with_custom_certificate_verifier(Arc::new(OnlyPeer::new(far.fingerprint))).with_no_client_auth();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let name = ServerName::from(std::net::Ipv4Addr::LOCALHOST);
            let mut stream = StreamOwned::new(ClientConnection::new(config.into(), name).expect("a client"), here);
            let _ = stream.write_all(b"let me in").and_then(|()| stream.read(&mut [0; 16]));
        });
        assert!(rejects(&there, acceptor));
    });
}

/// Whether a connection is not accepted; it is closed, as its owner would.
fn rejects(stream: &TcpStream, config: Arc<ServerConfig>) -> bool {
    let accepted = accept(stream, config, until());
    let _ = stream.shutdown(std::net::Shutdown::Both);
    accepted.is_err()
}

/// The other end is plain rustls: what is sent is TLS 1.3, and nothing of haul's own.
#[test]
fn a_plain_client_of_rustls_is_understood_and_may_ask_for_new_keys() {
    let (near, far) = (identity(), identity());
    let (here, mut there) = pair();
    let acceptor = far.acceptor(near.fingerprint, &Suites::default()).expect("a configuration");
    let connector = near.connector(far.fingerprint, &Suites::default()).expect("a configuration");
    let sent = noise(200_000);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let name = ServerName::from(std::net::Ipv4Addr::LOCALHOST);
            let mut stream = StreamOwned::new(ClientConnection::new(connector, name).expect("a client"), here);
            stream.write_all(&sent).expect("sent");
            stream.conn.refresh_traffic_keys().expect("new keys");
            stream.write_all(&sent).expect("sent");
            let mut back = vec![0; 100_000];
            stream.read_exact(&mut back).expect("it came");
            stream.conn.send_close_notify();
            stream.flush().expect("sent");
            back
        });
        let (mut writer, mut reader) = accept(&there, acceptor, until()).expect("accepted");
        assert!(content(&mut reader, &mut there, 200_000).expect("it came") == sent);
        assert!(content(&mut reader, &mut there, 200_000).expect("it came") == sent);
        writer.limit = 3;
        writer.write(&mut there, &[&sent[..100_000]]).expect("sent");
        assert!(client.join().expect("no panic") == sent[..100_000]);
        assert!(reader.content(&mut there).expect("an end in order").is_empty());
    });
}

/// What a connection carries for this content, in one direction.
fn carried(writer: &mut RecordWriter, content: &[u8]) -> Vec<u8> {
    let mut carried = Vec::new();
    writer.write(&mut carried, &[content]).expect("memory takes all");
    carried
}

#[test]
fn nothing_that_was_changed_moved_repeated_or_left_out_is_taken() {
    let whole = |halves: &mut RecordWriter| [carried(halves, b"first"), carried(halves, b"second"), carried(halves, b"third")];
    let harms: [fn(&mut [Vec<u8>; 3]); 7] = [
        |records| records[1][7] ^= 1,
        |records| *records[1].last_mut().expect("a byte") ^= 0x80,
        |records| records.swap(0, 1),
        |records| records[1] = records[0].clone(),
        |records| records[1].clear(),
        |records| records[1][0] = 21,
        |records| records[1][4] -= 1,
    ];
    for (i, harm) in harms.into_iter().enumerate() {
        let ((mut writer, _back), (_answer, mut reader), ..) = connected(&Suites::default());
        let mut records = whole(&mut writer);
        harm(&mut records);
        let bytes = records.concat();
        let mut from = &bytes[..];
        let mut came = Vec::new();
        let e = loop {
            match reader.content(&mut from) {
                Ok(some) => {
                    let count = some.len();
                    came.extend_from_slice(some);
                    reader.taken(count);
                }
                Err(e) => break e,
            }
        };
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{i}: {e}");
        assert!(came.is_empty() || came == b"first", "{i}");
        assert_eq!(reader.content(&mut from).expect_err("it is final").kind(), ErrorKind::Corrupt);
    }
    // The two directions have different keys.
    let ((mut writer, mut back), ..) = connected(&Suites::default());
    let reflected = carried(&mut writer, b"mine");
    assert!(back.content(&mut &reflected[..]).is_err());
    // A cut is not an end.
    let ((mut writer, _back), (_answer, mut reader), ..) = connected(&Suites::default());
    let bytes = carried(&mut writer, b"all");
    let mut from = &bytes[..];
    assert_eq!(content(&mut reader, &mut from, 3).expect("it came"), b"all");
    assert_eq!(reader.content(&mut from).expect_err("it was cut").kind(), ErrorKind::Broken);
}

#[test]
fn records_are_gathered_into_large_writes() {
    #[derive(Default)]
    struct Writes(Vec<usize>);
    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.len());
            Ok(bytes.len())
        }
        fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
            self.0.push(parts.iter().map(|part| part.len()).sum());
            Ok(self.0[self.0.len() - 1])
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let ((mut writer, _back), ..) = connected(&Suites::default());
    let mut writes = Writes::default();
    writer.write(&mut writes, &[&[7; 9], &noise(1 << 20)]).expect("taken");
    assert!(writes.0.len() <= 3 && writes.0[0] >= 256 << 10, "{:?}", writes.0);
}

#[test]
fn whoever_says_something_else_gets_no_answer() {
    for words in [&b"GET / HTTP/1.0\r\n\r\n"[..], &[0; 100_000], &[0xff; 37], b"x", b""] {
        let (mut here, there) = pair();
        let (near, far) = (identity(), identity());
        let acceptor = far.acceptor(near.fingerprint, &Suites::default()).expect("a configuration");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // It may be closed under our hands.
                let _ = here.write_all(words);
                let _ = here.shutdown(std::net::Shutdown::Write);
                let mut received = Vec::new();
                let _ = here.read_to_end(&mut received);
                assert_eq!(received, b"");
            });
            let accepted = accept(&there, acceptor, until());
            let _ = there.shutdown(std::net::Shutdown::Both);
            assert!(accepted.is_err());
        });
    }
    // A silent one is not waited for longer than allowed.
    let (_here, there) = pair();
    let (near, far) = (identity(), identity());
    let acceptor = far.acceptor(near.fingerprint, &Suites::default()).expect("a configuration");
    let e = accept(&there, acceptor, Instant::now() + Duration::from_millis(50)).err().expect("nothing came");
    assert_eq!(e.kind(), ErrorKind::TimedOut);
}
