//! A remote haul that the test itself plays: what is started behind the server hands its standard input and output over.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haul_core::varint;

use super::support::{HAUL, World};

/// Kinds of frames and of requests, as the protocol numbers them.
pub const DONE: u8 = 1;
pub const MORE: u8 = 2;
pub const FAILED: u8 = 3;
pub const HELLO: u8 = 16;
pub const LIST: u8 = 22;
pub const READ: u8 = 29;
pub const GET_BUNDLE: u8 = 39;
pub const PUT_BUNDLE: u8 = 40;
pub const TLS_LISTEN: u8 = 80;

/// What an agent prints before its first frame.
pub const MAGIC: &[u8] = b"\nhaul-agent-speaks\n";

#[derive(Clone, Debug)]
pub struct Frame {
    pub kind: u8,
    pub id: u32,
    pub body: Vec<u8>,
}

impl Frame {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = (5 + self.body.len() as u32).to_be_bytes().to_vec();
        bytes.push(self.kind);
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(&self.body);
        bytes
    }

    pub fn read(from: &mut impl Read) -> io::Result<Frame> {
        let mut head = [0; 9];
        from.read_exact(&mut head)?;
        let [a, b, c, d, kind, e, f, g, h] = head;
        let mut body = vec![0; u32::from_be_bytes([a, b, c, d]) as usize - 5];
        from.read_exact(&mut body)?;
        Ok(Frame { kind, id: u32::from_be_bytes([e, f, g, h]), body })
    }
}

/// A script for `--agent`, behind which `play` gets each conversation and the arguments of the agent.
pub fn remote(w: &World, play: impl Fn(TcpStream, &str) + Send + Sync + 'static) -> PathBuf {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its number").port();
    // The second cat ends with the session, the first one with the conversation.
    let script = format!(
        "#!/bin/bash\nexec 3<>/dev/tcp/127.0.0.1/{port}\nprintf '%s\\n' \"$*\" >&3\n(cat <&3; kill $$) 2>/dev/null &\ncat >&3\nkill $!\n"
    );
    let play = Arc::new(play);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let play = play.clone();
            std::thread::spawn(move || {
                let mut words = String::new();
                // Nothing behind the first line may be swallowed by a buffer.
                let mut byte = [0];
                while (&stream).read(&mut byte).is_ok_and(|count| count == 1) && byte[0] != b'\n' {
                    words.push(byte[0] as char);
                }
                play(stream, &words);
            });
        }
    });
    w.script("played", &script)
}

/// Kinds of the requests that came through, in their order.
pub type Asked = Arc<Mutex<Vec<u8>>>;

/// A true agent, each of whose answers goes through `tamper` with the kind of the request that it answers: what that
/// gives back goes on in its place.
pub fn tampering(w: &World, tamper: impl Fn(u8, Frame) -> Vec<u8> + Send + Sync + 'static) -> (PathBuf, Asked) {
    let asked = Asked::default();
    let (home, run) = (w.path("remote-home"), w.path("remote-run"));
    let kinds = asked.clone();
    let play = move |stream: TcpStream, words: &str| {
        let mut command = Command::new(HAUL);
        // As sshd would say it.
        command.env("SSH_CONNECTION", "127.0.0.1 1 127.0.0.1 22");
        command.args(words.split_whitespace()).env("HOME", &home).env("XDG_RUNTIME_DIR", &run).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the agent starts");
        let (mut to, from) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let requests: Arc<Mutex<HashMap<u32, u8>>> = Arc::default();
        let (kinds, sent, copy) = (kinds.clone(), requests.clone(), stream.try_clone().expect("copied"));
        std::thread::spawn(move || {
            let mut copy = BufReader::new(copy);
            while let Ok(frame) = Frame::read(&mut copy) {
                if frame.kind >= HELLO {
                    sent.lock().expect("held").insert(frame.id, frame.kind);
                    kinds.lock().expect("held").push(frame.kind);
                }
                if to.write_all(&frame.bytes()).is_err() {
                    break;
                }
            }
        });
        let mut from = BufReader::new(from);
        let mut pass = || -> io::Result<()> {
            let mut stream = &stream;
            let mut before = Vec::new();
            while !before.ends_with(MAGIC) {
                if from.read_until(b'\n', &mut before)? == 0 {
                    return Ok(());
                }
            }
            stream.write_all(&before)?;
            loop {
                let frame = Frame::read(&mut from)?;
                let request = requests.lock().expect("held").get(&frame.id).copied().unwrap_or(0);
                stream.write_all(&tamper(request, frame))?;
            }
        };
        // Either side may have left.
        let _ = pass();
        let _ = stream.shutdown(Shutdown::Both);
        let _ = child.kill();
        let _ = child.wait();
    };
    (remote(w, play), asked)
}

/// The same bytes with each `from` replaced.
pub fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(from) {
            out.extend(to);
            at += from.len();
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

/// What becomes of a data connection once so many bytes have gone through it in one direction.
#[derive(Clone, Copy, Debug)]
pub enum Harm {
    Cut,
    /// One bit is another.
    Flip,
}

/// A true agent, to whose data port every connection goes through a proxy that does harm after `bytes` in one direction; and
/// how many connections there were.
pub fn harming(w: &World, harm: Harm, bytes: u64) -> (PathBuf, Arc<AtomicUsize>) {
    let count: Arc<AtomicUsize> = Arc::default();
    let connections = count.clone();
    let (agent, _) = tampering(w, move |request, frame| match (request, frame.kind) {
        (TLS_LISTEN, DONE) if !frame.body.is_empty() => {
            let port = port_of(&frame);
            let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
            let own = proxy.local_addr().expect("its number").port();
            let connections = connections.clone();
            std::thread::spawn(move || {
                for local in proxy.incoming().flatten() {
                    connections.fetch_add(1, Ordering::Relaxed);
                    let Ok(remote) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                    for (from, to) in [(&local, &remote), (&remote, &local)] {
                        let (from, to) = (from.try_clone().expect("copied"), to.try_clone().expect("copied"));
                        std::thread::spawn(move || pass(from, to, harm, bytes));
                    }
                }
            });
            let mut body = Vec::new();
            varint::put(&mut body, own.into());
            // How many connections there may be stands behind it.
            let mut rest = &frame.body[..];
            varint::take(&mut rest);
            body.extend(rest);
            Frame { body, ..frame }.bytes()
        }
        _ => frame.bytes(),
    });
    (agent, count)
}

/// The port in the answer to a request to listen.
pub fn port_of(frame: &Frame) -> u16 {
    varint::take(&mut &frame.body[..]).and_then(|port| u16::try_from(port).ok()).expect("a port")
}

fn pass(mut from: TcpStream, mut to: TcpStream, harm: Harm, bytes: u64) {
    let mut buffer = vec![0; 64 << 10];
    let mut passed = 0;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let before = passed;
        passed += count as u64;
        match harm {
            Harm::Cut if passed > bytes => break,
            Harm::Flip if before <= bytes && passed > bytes => buffer[count - 1] ^= 1,
            _ => {}
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
