use std::os::unix::net::UnixStream;

use haul_core::error::Remedy;

use super::super::frame::Plain;
use super::*;
use crate::bounded::Bounded;

/// How long the links of these tests may be silent.
const SILENT: Duration = Duration::from_millis(700);

struct Nothing;

impl Transport for Nothing {
    fn end(&mut self) {}
}

/// A link to an end that takes everything and says nothing; it is there as long as the socket.
fn to_silence(window: &Arc<Window>) -> (Arc<Link>, UnixStream) {
    let (near, remote) = UnixStream::pair().expect("a pair");
    let over = Arc::new(AtomicBool::new(false));
    let output = Bounded::new(near.try_clone().expect("copied").into(), SILENT, over.clone()).expect("bounded");
    let input = Bounded::new(near.into(), Duration::MAX, over.clone()).expect("bounded");
    let link = Link::start(Box::new(Plain(output)), Box::new(Plain(input)), Box::new(Nothing), over, false, window.clone(), SILENT);
    (link.expect("a thread"), remote)
}

#[test]
fn a_heartbeat_is_no_answer_where_there_is_a_limit_for_answers() {
    let (link, remote) = to_silence(&Arc::new(Window::new(Some(SILENT))));
    let mut beats = Plain(Bounded::new(remote.into(), Duration::MAX, Arc::default()).expect("bounded"));
    let (begun, ticket) = (Instant::now(), link.ask(9, &[], 0).expect("sent"));
    let waiting = std::thread::spawn(move || ticket.wait());
    while !waiting.is_finished() && begun.elapsed() < Duration::from_secs(60) {
        // Once the link is over they are refused.
        let _ = beats.send(head(kind::HEARTBEAT, 0), &[]);
        std::thread::sleep(SILENT / 7);
    }
    assert!(waiting.is_finished());
    assert_eq!(waiting.join().expect("no panic").expect_err("no answer").kind(), ErrorKind::TimedOut);
}

#[test]
fn who_waits_for_room_finds_out_that_the_links_are_silent() {
    let window = Arc::new(Window::default());
    let (first, _taken) = to_silence(&window);
    let (second, _also) = to_silence(&window);
    // All room is taken by requests whose answers are not waited for.
    let held: Vec<Ticket> = (0..2).map(|_| first.ask(9, &[], WINDOW / 2).expect("sent")).collect();
    // By another link, and by the same one.
    let asked = second.ask(9, &[], WINDOW / 4).expect("the silent link gives back what it held");
    assert!(first.is_over());
    assert_eq!(first.ask(9, &[], 1).expect_err("it is over").remedy(), Remedy::Reconnect);
    for ticket in held {
        assert_eq!(ticket.wait().expect_err("no answer").remedy(), Remedy::Reconnect);
    }
    assert_eq!(first.load(), 0);
    drop(asked);
}
