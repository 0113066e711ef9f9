//! As much of HTTP/1.1 as a test needs: heads, and bodies that are counted, come in chunks or end with the connection.

use std::io::{self, BufRead, Read, Write};

/// No head of a test is longer.
const LONGEST_HEAD: u64 = 64 << 10;

/// A request's or an answer's first line and headers, in their order and spelling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub first: String,
    pub headers: Vec<(String, String)>,
}

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Bytes(u64),
    Chunked,
    UntilClosed,
}

impl Head {
    /// The next one, or none where the other side is done.
    pub fn read(from: &mut impl BufRead) -> io::Result<Option<Head>> {
        let mut from = from.take(LONGEST_HEAD);
        let Some(first) = line(&mut from)? else { return Ok(None) };
        let mut headers = Vec::new();
        loop {
            let next = line(&mut from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if next.is_empty() {
                return Ok(Some(Head { first, headers }));
            }
            let (name, value) = next.split_once(':').ok_or_else(|| io::Error::other(format!("no header: {next}")))?;
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let lines = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        to.write_all(format!("{}\r\n{}\r\n", self.first, lines.collect::<String>()).as_bytes())
    }

    /// The value of a header, in whatever case it is written.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    pub fn has(&self, name: &str, value: &str) -> bool {
        self.header(name).is_some_and(|there| there.eq_ignore_ascii_case(value))
    }

    /// The status of an answer.
    pub fn status(&self) -> io::Result<u16> {
        let code = self.first.split(' ').nth(1).and_then(|code| code.parse().ok());
        code.ok_or_else(|| io::Error::other(format!("no answer: {}", self.first)))
    }

    pub fn request_length(&self) -> io::Result<Length> {
        Ok(self.said_length()?.unwrap_or(Length::Bytes(0)))
    }

    /// `method` is that of the request which it answers.
    pub fn answer_length(&self, method: &str) -> io::Result<Length> {
        match self.status()? {
            100..200 | 204 | 304 => Ok(Length::Bytes(0)),
            _ if method == "HEAD" => Ok(Length::Bytes(0)),
            _ => Ok(self.said_length()?.unwrap_or(Length::UntilClosed)),
        }
    }

    fn said_length(&self) -> io::Result<Option<Length>> {
        if self.has("transfer-encoding", "chunked") {
            return Ok(Some(Length::Chunked));
        }
        let parse = |value: &str| value.parse().map(Length::Bytes).map_err(|_| io::Error::other(format!("no length: {value}")));
        self.header("content-length").map(parse).transpose()
    }
}

pub(super) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(there, _)| there.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// Hands on a body as it stands, chunks with their framing, in pieces as they come. Returns how many bytes it has without framing.
pub(super) fn pass_body(from: &mut impl BufRead, length: Length, mut piece: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<u64> {
    match length {
        Length::Bytes(length) => pass(from, length, &mut piece),
        Length::UntilClosed => {
            let mut passed = 0;
            loop {
                let some = from.fill_buf()?;
                let many = some.len();
                if many == 0 {
                    return Ok(passed);
                }
                piece(some)?;
                from.consume(many);
                passed += many as u64;
            }
        }
        Length::Chunked => {
            let mut passed = 0;
            loop {
                let size = next_line(from)?;
                piece(format!("{size}\r\n").as_bytes())?;
                let length = chunk_length(&size)?;
                if length == 0 {
                    break;
                }
                passed += pass(from, length, &mut piece)?;
                next_line(from)?;
                piece(b"\r\n")?;
            }
            loop {
                let trailer = next_line(from)?;
                piece(format!("{trailer}\r\n").as_bytes())?;
                if trailer.is_empty() {
                    return Ok(passed);
                }
            }
        }
    }
}

/// A whole body without framing.
pub(super) fn read_body(from: &mut impl BufRead, length: Length) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    match length {
        Length::Bytes(length) => {
            pass(from, length, &mut |piece: &[u8]| body.write_all(piece))?;
        }
        Length::UntilClosed => {
            from.read_to_end(&mut body)?;
        }
        Length::Chunked => loop {
            let length = chunk_length(&next_line(from)?)?;
            if length == 0 {
                while !next_line(from)?.is_empty() {}
                break;
            }
            pass(from, length, &mut |piece: &[u8]| body.write_all(piece))?;
            next_line(from)?;
        },
    }
    Ok(body)
}

fn pass(from: &mut impl BufRead, length: u64, piece: &mut impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<u64> {
    let mut left = length;
    while left > 0 {
        let some = from.fill_buf()?;
        if some.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let many = some.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        piece(&some[..many])?;
        from.consume(many);
        left -= many as u64;
    }
    Ok(length)
}

/// A chunk's length stands in front of its extensions.
fn chunk_length(line: &str) -> io::Result<u64> {
    let digits = line.split(';').next().unwrap_or_default().trim();
    u64::from_str_radix(digits, 16).map_err(|_| io::Error::other(format!("no chunk: {line}")))
}

fn next_line(from: &mut impl BufRead) -> io::Result<String> {
    line(&mut from.take(LONGEST_HEAD))?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if from.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map(Some).map_err(io::Error::other)
}
