//! An SFTP server that lies: a small tree from memory, and answers of any kind to chosen requests.
//!
//! It runs on a thread of the test. [`Rogue::command`] is a script that stands in for `ssh`, and joins whoever starts it
//! to the server; it needs bash for that.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

/// What a name is.
#[derive(Clone, Debug)]
pub enum Thing {
    File(Vec<u8>),
    /// A file that is said to have so many bytes, and has these.
    Claim(u64, Vec<u8>),
    /// Names as they are listed: any bytes, any of them twice.
    Dir(Vec<(Vec<u8>, Thing)>),
    Link(Vec<u8>),
    /// A directory with one name more for each that was asked for: `f0`, `f1`, ... all empty files.
    Endless,
    /// A directory in which there is the same directory, under the name `d`.
    Deep,
}

pub fn file(content: &str) -> Thing {
    Thing::File(content.as_bytes().to_vec())
}

pub fn dir<const N: usize>(names: [(&[u8], Thing); N]) -> Thing {
    Thing::Dir(names.into_iter().map(|(name, thing)| (name.to_vec(), thing)).collect())
}

/// A request as it came.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The number of the kind, as section 3 of the draft has it.
    pub kind: u8,
    pub id: u32,
    /// What follows the id; of INIT, nothing.
    pub body: &'a [u8],
}

/// What a request is answered with.
#[derive(Debug)]
pub enum Answer {
    /// As an honest server would.
    Honest,
    /// These bytes, as they are.
    Raw(Vec<u8>),
    /// These bytes, and the end of the conversation.
    Last(Vec<u8>),
    /// None at all.
    Silence,
}

/// The numbers of the kinds that tests name.
pub mod kind {
    pub const INIT: u8 = 1;
    pub const OPEN: u8 = 3;
    pub const CLOSE: u8 = 4;
    pub const READ: u8 = 5;
    pub const WRITE: u8 = 6;
    pub const LSTAT: u8 = 7;
    pub const FSTAT: u8 = 8;
    pub const OPENDIR: u8 = 11;
    pub const READDIR: u8 = 12;
    pub const REALPATH: u8 = 16;
    pub const STAT: u8 = 17;
    pub const READLINK: u8 = 19;
    pub const STATUS: u8 = 101;
    pub const HANDLE: u8 = 102;
    pub const DATA: u8 = 103;
    pub const NAME: u8 = 104;
    pub const ATTRS: u8 = 105;
}

/// A packet with a kind, an id and a body.
pub fn packet(kind: u8, id: u32, body: &[u8]) -> Vec<u8> {
    let mut out = (body.len() as u32 + 5).to_be_bytes().to_vec();
    out.push(kind);
    out.extend(id.to_be_bytes());
    out.extend(body);
    out
}

/// Bytes with their length in front.
pub fn string(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

type Lie = dyn Fn(&Asked<'_>) -> Answer + Send + Sync;

/// The server; it ends with the process of the test.
#[derive(Debug)]
pub struct Rogue {
    place: tempfile::TempDir,
}

impl Rogue {
    /// `/` is the tree; the home directory is `/` too.
    pub fn new(tree: Thing, lie: impl Fn(&Asked<'_>) -> Answer + Send + Sync + 'static) -> io::Result<Rogue> {
        let server = Arc::new(Server { tree, lie: Box::new(lie) });
        Rogue::serving(move |stream| {
            let server = server.clone();
            std::thread::spawn(move || server.serve(stream));
        })
    }

    /// `serve` is called with each conversation.
    pub(crate) fn serving(serve: impl Fn(TcpStream) + Send + 'static) -> io::Result<Rogue> {
        let place = tempfile::Builder::new().prefix("haul-rogue-").tempdir()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        // Asked whether there is a login already it says yes, so that every session comes straight to the server.
        let script = format!(
            "#!/bin/bash\nfor word; do [ \"$word\" != check ] || exit 0; done\nexec 3<>/dev/tcp/127.0.0.1/{port} || exit 255\n\
             cat >&3 <&0 &\ncat <&3\nkill $! 2>/dev/null\n"
        );
        let path = place.path().join("ssh");
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
        Ok(Rogue { place })
    }

    /// For `-e`.
    pub fn command(&self) -> PathBuf {
        self.place.path().join("ssh")
    }
}

struct Server {
    tree: Thing,
    lie: Box<Lie>,
}

/// What is open in one conversation, by its handle.
#[derive(Default)]
struct Open {
    files: Vec<Vec<u8>>,
    /// The path, and how many names were given.
    dirs: Vec<(Vec<u8>, usize)>,
}

impl Server {
    /// Until the client leaves; an error is the client's leaving too.
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut open = Open::default();
        loop {
            let mut length = [0; 4];
            stream.read_exact(&mut length).ok()?;
            let mut request = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut request).ok()?;
            let kind = *request.first()?;
            let (id, body) = match kind {
                kind::INIT => (0, &[][..]),
                _ => (u32::from_be_bytes(*request[1..].first_chunk()?), &request[5..]),
            };
            let asked = Asked { kind, id, body };
            let out = match (self.lie)(&asked) {
                Answer::Honest => self.honest(&asked, &mut open)?,
                Answer::Raw(bytes) => bytes,
                Answer::Silence => continue,
                Answer::Last(bytes) => {
                    stream.write_all(&bytes).ok()?;
                    return None;
                }
            };
            stream.write_all(&out).ok()?;
        }
    }

    fn honest(&self, asked: &Asked<'_>, open: &mut Open) -> Option<Vec<u8>> {
        let Asked { kind, id, body } = *asked;
        let mut from = body;
        let status = |code: u32| Some(packet(kind::STATUS, id, &[&code.to_be_bytes()[..], &string(b""), &string(b"")].concat()));
        let (eof, missing, cannot) = (|| status(1), || status(2), || status(8));
        match kind {
            kind::INIT => Some([&5_u32.to_be_bytes()[..], &[2], &3_u32.to_be_bytes()].concat()),
            kind::REALPATH => {
                let path = absolute(take(&mut from)?);
                Some(packet(kind::NAME, id, &names(&[(path, attrs(&Thing::File(Vec::new())))])))
            }
            kind::STAT | kind::LSTAT => match self.find(take(&mut from)?) {
                Some(thing) => Some(packet(kind::ATTRS, id, &attrs(&thing))),
                None => missing(),
            },
            kind::READLINK => match self.find(take(&mut from)?) {
                Some(Thing::Link(target)) => Some(packet(kind::NAME, id, &names(&[(target, attrs(&file("")))]))),
                _ => missing(),
            },
            kind::OPENDIR => {
                open.dirs.push((take(&mut from)?.to_vec(), 0));
                Some(packet(kind::HANDLE, id, &string(&[b'd', (open.dirs.len() - 1) as u8])))
            }
            kind::READDIR => {
                let (path, given) = open.dirs.get_mut(usize::from(*take(&mut from)?.get(1)?))?;
                let listed = match self.find(path)? {
                    Thing::Dir(all) if *given == 0 => {
                        *given = 1;
                        all.iter().map(|(name, thing)| (name.clone(), attrs(thing))).collect()
                    }
                    Thing::Endless => {
                        *given += 100;
                        (*given - 100..*given).map(|n| (format!("f{n}").into_bytes(), attrs(&file("")))).collect()
                    }
                    Thing::Deep if *given == 0 => {
                        *given = 1;
                        vec![(b"d".to_vec(), attrs(&Thing::Deep))]
                    }
                    _ => return eof(),
                };
                Some(packet(kind::NAME, id, &names(&listed)))
            }
            kind::OPEN => {
                open.files.push(take(&mut from)?.to_vec());
                Some(packet(kind::HANDLE, id, &string(&[b'f', (open.files.len() - 1) as u8])))
            }
            kind::FSTAT => match self.find(open.files.get(usize::from(*take(&mut from)?.get(1)?))?) {
                Some(thing) => Some(packet(kind::ATTRS, id, &attrs(&thing))),
                None => missing(),
            },
            kind::READ => {
                let path = open.files.get(usize::from(*take(&mut from)?.get(1)?))?;
                let at = u64::from_be_bytes(*from.first_chunk()?);
                let wanted = u32::from_be_bytes(*from.get(8..)?.first_chunk()?) as usize;
                let content = match self.find(path)? {
                    Thing::File(content) | Thing::Claim(_, content) => content,
                    _ => return cannot(),
                };
                let rest = content.get(usize::try_from(at).unwrap_or(usize::MAX)..).unwrap_or_default();
                if rest.is_empty() { eof() } else { Some(packet(kind::DATA, id, &string(&rest[..rest.len().min(wanted)]))) }
            }
            // CLOSE
            4 => status(0),
            _ => cannot(),
        }
    }

    fn find(&self, path: &[u8]) -> Option<Thing> {
        let mut at = self.tree.clone();
        for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".") {
            at = match at {
                // The last of two that have one name is the one that is there.
                Thing::Dir(names) => names.into_iter().rev().find(|(name, _)| name == part)?.1,
                Thing::Deep => Thing::Deep,
                Thing::Endless => file(""),
                _ => return None,
            };
        }
        Some(at)
    }
}

fn absolute(path: &[u8]) -> Vec<u8> {
    match path {
        b"." => b"/".to_vec(),
        _ if path.starts_with(b"/") => path.to_vec(),
        _ => [b"/", path].concat(),
    }
}

fn take<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_be_bytes(*from.first_chunk()?) as usize;
    let taken = from.get(4..4 + length)?;
    *from = &from[4 + length..];
    Some(taken)
}

/// The body of a NAME packet.
pub fn names(listed: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut out = (listed.len() as u32).to_be_bytes().to_vec();
    for (name, attrs) in listed {
        out.extend(string(name));
        out.extend(string(b"-rw-r--r-- 1 somebody"));
        out.extend(attrs);
    }
    out
}

/// Size, mode and times.
pub fn attrs(thing: &Thing) -> Vec<u8> {
    let (size, mode) = match thing {
        Thing::File(content) => (content.len() as u64, 0o100_644_u32),
        Thing::Claim(size, _) => (*size, 0o100_644),
        Thing::Dir(_) | Thing::Endless | Thing::Deep => (0, 0o040_755),
        Thing::Link(target) => (target.len() as u64, 0o120_777),
    };
    let time = 1_700_000_000_u32.to_be_bytes();
    [&13_u32.to_be_bytes()[..], &size.to_be_bytes(), &mode.to_be_bytes(), &time, &time].concat()
}
