//! One connection of a client: its requests one after the other, each passed, answered or spoiled.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use super::super::http::{Head, Length, pass_body, read_body};
use super::{Action, Answer, Seen, Shared};

/// So that nothing hangs for ever, whatever the two sides do.
const PATIENCE: Duration = Duration::from_secs(300);
const BUFFER: usize = 256 << 10;
/// What frames a body, and is said anew where the body may have changed.
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];

/// A socket that is closed when the server stops.
struct Socket<'a> {
    shared: &'a Shared,
    number: usize,
    stream: BufReader<TcpStream>,
}

impl<'a> Socket<'a> {
    fn new(shared: &'a Shared, stream: TcpStream) -> io::Result<Socket<'a>> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let number = shared.register(&stream)?;
        Ok(Socket { shared, number, stream: BufReader::with_capacity(BUFFER, stream) })
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_ref().write_all(bytes)
    }

    fn write_head(&self, head: &Head) -> io::Result<()> {
        head.write(&mut self.stream.get_ref())
    }

    fn read_head(&mut self) -> io::Result<Head> {
        Head::read(&mut self.stream)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// The other side has closed it, or said what nobody asked.
    fn is_stale(&self) -> bool {
        let socket = self.stream.get_ref();
        let is_quiet = socket.set_nonblocking(true).is_ok()
            && socket.peek(&mut [0]).is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
            && socket.set_nonblocking(false).is_ok();
        !is_quiet
    }
}

impl Drop for Socket<'_> {
    fn drop(&mut self) {
        self.shared.forget(self.number);
        // It may be closed.
        let _ = self.stream.get_ref().shutdown(Shutdown::Both);
    }
}

struct Connection<'a> {
    shared: &'a Shared,
    client: Socket<'a>,
    /// A connection to the server behind, once there was a use for it.
    behind: Option<Socket<'a>>,
    /// Nothing more comes after what was last done.
    spent: bool,
}

/// A request with its number among those that were taken down.
struct Asked<'a> {
    number: usize,
    head: &'a Head,
    seen: &'a Seen,
}

impl Asked<'_> {
    /// Whether the client wants to be told before it sends the body.
    fn waits(&self) -> bool {
        self.head.has("expect", "100-continue")
    }
}

/// Serves a client until either side ends it.
pub(super) fn serve(shared: &Shared, client: TcpStream) -> io::Result<()> {
    let mut serving = Connection { shared, client: Socket::new(shared, client)?, behind: None, spent: false };
    let mut round_trips = 2;
    while !serving.spent
        && let Some(head) = Head::read(&mut serving.client.stream)?
    {
        let round_trip = shared.lock().round_trip;
        shared.wait(round_trip * round_trips)?;
        round_trips = 1;
        serving.spent = head.has("connection", "close");
        let seen = seen(&head)?;
        let (number, action) = shared.admit(seen.clone());
        let done = serving.follow(&Asked { number, head: &head, seen: &seen }, action);
        if let Some((now, _)) = shared.lock().under_way.get_mut(&seen.method) {
            *now -= 1;
        }
        done?;
    }
    Ok(())
}

fn seen(head: &Head) -> io::Result<Seen> {
    let mut words = head.first.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(io::Error::other(format!("no request: {}", head.first)));
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(Seen {
        method: method.into(),
        path: path.into(),
        query: query.into(),
        headers: head.headers.clone(),
        body: 0,
        status: None,
        answered: 0,
    })
}

impl Connection<'_> {
    fn follow(&mut self, asked: &Asked<'_>, action: Action) -> io::Result<()> {
        match action {
            Action::Pass if self.shared.behind.is_none() => self.make(asked, |_, _| Answer::error(501, "NotImplemented")),
            Action::Pass => self.pass(asked, None),
            Action::FlipSent(at) => self.pass(asked, Some(at)),
            Action::Answer(answer) => self.make(asked, |_, _| answer),
            Action::Make(make) => self.make(asked, |seen, body| make(seen, body)),
            Action::Edit(edit) => {
                let mut answer = self.exchange(asked)?;
                edit(&mut answer);
                self.answer(asked, &answer)
            }
            Action::Flip(at) => {
                let mut answer = self.exchange(asked)?;
                flip(&mut answer.body, at);
                self.answer(asked, &answer)
            }
            Action::Late(time) => {
                let answer = self.exchange(asked)?;
                self.shared.wait(time)?;
                self.answer(asked, &answer)
            }
            Action::Slow(piece, every) => {
                let answer = self.exchange(asked)?;
                self.begin_answer(asked, &answer)?;
                for piece in answer.body.chunks(piece.max(1)) {
                    self.send(asked, piece)?;
                    self.shared.wait(every)?;
                }
                Ok(())
            }
            Action::Cut(most) => {
                let answer = self.exchange(asked)?;
                let some = usize::try_from(most).ok().and_then(|most| answer.body.get(..most)).unwrap_or(&answer.body);
                self.spent = true;
                self.begin_answer(asked, &answer)?;
                self.send(asked, some)
            }
            Action::Lose => {
                self.spent = true;
                self.exchange(asked).map(drop)
            }
            Action::CutSent(most) => {
                self.spent = true;
                self.client_may_send(asked)?;
                let mut body = Vec::new();
                (&mut self.client.stream).take(most).read_to_end(&mut body)?;
                self.taken(asked, body.len() as u64);
                Ok(())
            }
            Action::Close => {
                self.spent = true;
                Ok(())
            }
            Action::Hang => {
                self.spent = true;
                self.shared.wait(PATIENCE)
            }
        }
    }

    /// Takes the body, and answers with what is made of it.
    fn make(&mut self, asked: &Asked<'_>, make: impl FnOnce(&Seen, &[u8]) -> Answer) -> io::Result<()> {
        // Who wants to be told first sends no body after a final answer.
        self.spent |= asked.waits();
        let body = if asked.waits() { Vec::new() } else { read_body(&mut self.client.stream, asked.head.request_length()?)? };
        self.taken(asked, body.len() as u64);
        self.answer(asked, &make(asked.seen, &body))
    }

    /// Passes a request, and its answer as it comes.
    fn pass(&mut self, asked: &Asked<'_>, flipped: Option<u64>) -> io::Result<()> {
        let head = self.ask(asked, flipped)?;
        let behind = self.behind.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let length = head.answer_length(&asked.seen.method)?;
        self.spent |= length == Length::UntilClosed || head.has("connection", "close");
        let status = head.status()?;
        self.shared.note(asked.number, |seen| seen.status = Some(status));
        self.client.write_head(&head)?;
        let client = &self.client;
        let passed = pass_body(&mut behind.stream, length, |piece| client.write(piece))?;
        self.shared.note(asked.number, |seen| seen.answered = passed);
        Ok(())
    }

    /// Passes a request, and takes the whole answer.
    fn exchange(&mut self, asked: &Asked<'_>) -> io::Result<Answer> {
        let head = self.ask(asked, None)?;
        let behind = self.behind.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let body = read_body(&mut behind.stream, head.answer_length(&asked.seen.method)?)?;
        self.spent |= head.has("connection", "close");
        let status = head.status()?;
        let keeps = |name: &str| asked.seen.method == "HEAD" || !FRAMING.iter().any(|framing| name.eq_ignore_ascii_case(framing));
        Ok(Answer { status, headers: head.headers.into_iter().filter(|(name, _)| keeps(name)).collect(), body })
    }

    /// Passes a request to the server behind, with one bit turned round if so told, and returns the beginning of its answer.
    fn ask(&mut self, asked: &Asked<'_>, flipped: Option<u64>) -> io::Result<Head> {
        let behind = match self.behind.take().filter(|behind| !behind.is_stale()) {
            Some(behind) => behind,
            None => {
                let address = self.shared.behind.ok_or_else(|| io::Error::other("there is no server behind"))?;
                Socket::new(self.shared, TcpStream::connect_timeout(&address, PATIENCE)?)?
            }
        };
        let behind = self.behind.insert(behind);
        let length = asked.head.request_length()?;
        behind.write_head(asked.head)?;
        if asked.waits() {
            let head = behind.read_head()?;
            if head.status()? != 100 {
                self.spent = true;
                return Ok(head);
            }
            self.client.write_head(&head)?;
        }
        let (mut at, mut refused) = (0, false);
        let taken = pass_body(&mut self.client.stream, length, |piece| {
            let mut piece = piece.to_vec();
            if let Some(byte) = flipped.and_then(|flipped| flipped.checked_sub(at)) {
                flip(&mut piece, byte);
            }
            at += piece.len() as u64;
            // A server may answer and close before it has all of it: its answer counts.
            refused = refused || behind.write(&piece).is_err();
            Ok(())
        })?;
        self.shared.note(asked.number, |seen| seen.body = taken);
        loop {
            let head = behind.read_head()?;
            if !(100..200).contains(&head.status()?) {
                return Ok(head);
            }
            self.client.write_head(&head)?;
        }
    }

    fn answer(&self, asked: &Asked<'_>, answer: &Answer) -> io::Result<()> {
        self.begin_answer(asked, answer)?;
        if asked.seen.method == "HEAD" { Ok(()) } else { self.send(asked, &answer.body) }
    }

    fn begin_answer(&self, asked: &Asked<'_>, answer: &Answer) -> io::Result<()> {
        let mut head = Head { first: format!("HTTP/1.1 {} scripted", answer.status), headers: answer.headers.clone() };
        let is_bodiless = matches!(answer.status, 204 | 304);
        if !is_bodiless && !FRAMING.iter().any(|framing| head.header(framing).is_some()) {
            head.headers.push(("Content-Length".into(), answer.body.len().to_string()));
        }
        self.shared.note(asked.number, |seen| seen.status = Some(answer.status));
        self.client.write_head(&head)
    }

    fn send(&self, asked: &Asked<'_>, body: &[u8]) -> io::Result<()> {
        self.client.write(body)?;
        self.shared.note(asked.number, |seen| seen.answered += body.len() as u64);
        Ok(())
    }

    fn client_may_send(&self, asked: &Asked<'_>) -> io::Result<()> {
        if asked.waits() { self.client.write(b"HTTP/1.1 100 Continue\r\n\r\n") } else { Ok(()) }
    }

    fn taken(&self, asked: &Asked<'_>, bytes: u64) {
        self.shared.note(asked.number, |seen| seen.body = bytes);
    }
}

fn flip(bytes: &mut [u8], at: u64) {
    if let Some(byte) = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at)) {
        *byte ^= 1;
    }
}
