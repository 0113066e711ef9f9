//! An FTP server that lies: one file and one directory from memory, and answers of any kind to chosen commands. It runs on threads of
//! the test, and ends with its process.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What a command is answered with.
#[derive(Debug)]
pub enum Answer {
    /// As an honest server would.
    Honest,
    /// These bytes, as they are.
    Say(String),
    /// None at all.
    Silence,
    /// The end of the conversation.
    HangUp,
    /// The beginning of what is sent, up to so many bytes, and then the end of the data connection and this reply.
    Cut(usize, &'static str),
    /// These bytes over the data connection, and a reply that they are all.
    Send(Vec<u8>),
    /// Takes whatever comes over the data connection, and says this.
    Take(&'static str),
    /// Bytes sent over a connection to where the client listens (EPRT).
    Connect(Vec<u8>),
}

/// The server.
#[derive(Clone, Debug)]
pub struct FtpRogue {
    pub port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

/// The file `/file` and its time.
struct Shelf {
    content: Vec<u8>,
    lie: Box<dyn Fn(&str) -> Answer + Send + Sync>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl FtpRogue {
    /// `lie` is asked for each command, as it came.
    pub fn new(content: Vec<u8>, lie: impl Fn(&str) -> Answer + Send + Sync + 'static) -> io::Result<FtpRogue> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let shelf = Arc::new(Shelf { content, lie: Box::new(lie), heard: heard.clone() });
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shelf = shelf.clone();
                // An error is the client's leaving.
                std::thread::spawn(move || shelf.serve(&stream));
            }
        });
        Ok(FtpRogue { port, heard })
    }

    pub fn url(&self, path: &str) -> String {
        format!("ftp://127.0.0.1:{}{path}", self.port)
    }

    /// Commands so far.
    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("no panic").clone()
    }
}

impl Shelf {
    fn serve(&self, control: &TcpStream) -> io::Result<()> {
        let mut out = control;
        let (mut passive, mut rest): (Option<TcpListener>, usize) = (None, 0);
        let (mut active, mut connection): (u16, Option<TcpStream>) = (0, None);
        if let Answer::Say(greeting) = (self.lie)("") {
            out.write_all(greeting.as_bytes())?;
        } else {
            out.write_all(b"220 ready\r\n")?;
        }
        for line in BufReader::new(control).lines() {
            let line = line?;
            self.heard.lock().expect("no panic").push(line.clone());
            let (word, argument) = line.split_once(' ').unwrap_or((&line, ""));
            let answer = match ((self.lie)(&line), word) {
                (Answer::Honest, "EPSV") => {
                    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                    let said = format!("229 Entering Extended Passive Mode (|||{}|)\r\n", listener.local_addr()?.port());
                    passive = Some(listener);
                    said
                }
                (Answer::Honest, "PASV") => {
                    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                    let port = listener.local_addr()?.port();
                    passive = Some(listener);
                    format!("227 Entering Passive Mode (127,0,0,1,{},{})\r\n", port >> 8, port & 255)
                }
                (Answer::Honest, "EPRT") => {
                    active = argument.split('|').nth(3).and_then(|port| port.parse().ok()).unwrap_or(0);
                    "200 ok\r\n".into()
                }
                (Answer::Connect(bytes), _) => {
                    let mut data = TcpStream::connect((Ipv4Addr::LOCALHOST, active))?;
                    out.write_all(b"150 here it comes\r\n")?;
                    // The client may have enough.
                    let _ = data.write_all(&bytes);
                    connection = Some(data);
                    "226 done\r\n".into()
                }
                (Answer::Honest, "REST") => {
                    rest = argument.parse().unwrap_or(0);
                    "350 restart\r\n".into()
                }
                (Answer::Honest, "RETR") if argument == "/file" => {
                    let content = self.content.get(rest..).unwrap_or_default();
                    rest = 0;
                    transfer(out, passive.take(), content, "226 done")?
                }
                (Answer::Cut(most, reply), "RETR") => {
                    let content = self.content.get(rest..).unwrap_or_default();
                    rest = 0;
                    transfer(out, passive.take(), &content[..content.len().min(most)], reply)?
                }
                (Answer::Send(bytes), _) => transfer(out, passive.take(), &bytes, "226 done")?,
                (Answer::Take(reply), _) => take(out, passive.take(), reply)?,
                (Answer::Silence, _) => continue,
                (Answer::HangUp, _) => return Ok(()),
                (Answer::Say(said), _) => said,
                (_, word) => self.honest(word, argument),
            };
            out.write_all(answer.as_bytes())?;
        }
        drop(connection);
        Ok(())
    }

    fn honest(&self, word: &str, argument: &str) -> String {
        match (word, argument) {
            ("USER", _) => "331 password?\r\n".into(),
            ("PASS", _) => "230 welcome\r\n".into(),
            ("TYPE" | "NOOP" | "MODE", _) => "200 ok\r\n".into(),
            ("FEAT", _) => "211-Features\r\n SIZE\r\n MDTM\r\n REST STREAM\r\n EPSV\r\n211 End\r\n".into(),
            ("SYST", _) => "215 UNIX Type: L8\r\n".into(),
            ("PWD", _) => "257 \"/\" is it\r\n".into(),
            ("CWD", "/" | "/dir") => "250 ok\r\n".into(),
            ("SIZE", "/file") => format!("213 {}\r\n", self.content.len()),
            ("MDTM", "/file") => "213 20200102030405\r\n".into(),
            ("CWD" | "SIZE" | "MDTM" | "RETR", _) => "550 no\r\n".into(),
            _ => "500 what?\r\n".into(),
        }
    }
}

fn take(mut control: &TcpStream, passive: Option<TcpListener>, reply: &str) -> io::Result<String> {
    let Some(passive) = passive else { return Ok("425 use EPSV first\r\n".into()) };
    let (mut data, _) = passive.accept()?;
    control.write_all(b"150 send it\r\n")?;
    io::copy(&mut data, &mut io::sink())?;
    Ok(format!("{reply}\r\n"))
}

fn transfer(mut control: &TcpStream, passive: Option<TcpListener>, bytes: &[u8], reply: &str) -> io::Result<String> {
    let Some(passive) = passive else { return Ok("425 use EPSV first\r\n".into()) };
    let (mut data, _) = passive.accept()?;
    control.write_all(b"150 here it comes\r\n")?;
    // The client may have enough.
    let _ = data.write_all(bytes);
    drop(data);
    Ok(format!("{reply}\r\n"))
}
