//! A cursor over a listing: children by name, the text of a leaf, nothing copied where nothing is escaped.

use std::borrow::Cow;
use std::io::BufRead as _;

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};

use super::{Fault, shorten};

/// Elements open at a time. The service's own documents have five.
const DEEPEST: usize = 32;

/// Bytes of one text. A key has at most 1,024 bytes, each at most `%25` escaped once more.
const LONGEST: usize = 64 << 10;

/// Bytes of a name that is taken in one step. The service's own have at most half as many.
const LONGEST_NAME: usize = 64;

pub(super) struct Walk<'a> {
    document: &'a str,
    reader: Reader<&'a [u8]>,
    depth: usize,
    /// The child that was named last is `<x/>`: it has neither content nor an end of its own.
    hollow: bool,
    /// The child that was named last is this text, still escaped, and lies behind the reader already.
    leaf: Option<&'a str>,
}

impl<'a> Walk<'a> {
    /// Opens the document and steps into its root, whatever its name.
    pub(super) fn open(document: &'a [u8]) -> Result<(Self, &'a str), Fault> {
        let document =
            std::str::from_utf8(document).map_err(|error| Fault::Malformed { at: error.valid_up_to(), why: "it is not UTF-8".into() })?;
        let mut walk = Walk { document, reader: Reader::from_str(document), depth: 0, hollow: false, leaf: None };
        loop {
            match walk.event()? {
                Event::Start(start) => return walk.enter(&start).map(|name| (walk, name)),
                Event::Empty(start) => return walk.enter_hollow(&start).map(|name| (walk, name)),
                Event::Decl(declaration) => {
                    if let Some(Ok(encoding)) = declaration.encoding()
                        && !["utf-8", "utf8", "us-ascii"].iter().any(|known| encoding.eq_ignore_ascii_case(known))
                    {
                        return Err(walk.malformed(format!("it is said to be in {}", shorten(&encoding, 32))));
                    }
                }
                Event::Text(text) if !text.trim_ascii().is_empty() => return Err(walk.malformed("text before the first element")),
                // Blanks come before a document that took long to make.
                Event::Text(_) | Event::Comment(_) | Event::PI(_) => {}
                Event::Eof => return Err(walk.malformed("it is empty")),
                _ => return Err(walk.malformed("no element at its start")),
            }
        }
    }

    /// The next child of the element that is open, without a namespace's prefix; `None` when the element ends.
    /// The caller takes the child's `text`, `skip`s it, or asks for its children until there are no more.
    pub(super) fn child(&mut self) -> Result<Option<&'a str>, Fault> {
        if std::mem::take(&mut self.hollow) {
            return Ok(None);
        }
        if let Some(text) = self.leaf.take() {
            return if text.trim_ascii().is_empty() { Ok(None) } else { Err(self.malformed("text where there can be none")) };
        }
        if let Some(name) = self.pass_leaf() {
            return Ok(Some(name));
        }
        loop {
            match self.event()? {
                Event::Start(start) => return self.enter(&start).map(Some),
                Event::Empty(start) => return self.enter_hollow(&start).map(Some),
                Event::End(_) => {
                    self.depth -= 1;
                    return Ok(None);
                }
                Event::Text(text) if text.trim_ascii().is_empty() => {}
                Event::Comment(_) | Event::PI(_) => {}
                Event::Eof => return Err(self.malformed("it is cut short")),
                _ => return Err(self.malformed("text where there can be none")),
            }
        }
    }

    /// Most of a listing is `<Name>text</Name>`, without attributes and with nothing within: that is taken in one
    /// step, past the reader: the whole listing costs half. Its name, or `None`, and nothing done, if the next is no such.
    fn pass_leaf(&mut self) -> Option<&'a str> {
        let rest = &self.document[self.at()..];
        let inner = rest.trim_ascii_start().strip_prefix('<')?;
        let length = inner.bytes().take(LONGEST_NAME).position(|byte| !byte.is_ascii_alphanumeric())?;
        let (name, inner) = inner.split_at(length);
        let inner = inner.strip_prefix('>').filter(|_| length > 0)?;
        let length = inner.bytes().take(LONGEST).position(|byte| byte == b'<')?;
        let (text, end) = inner.split_at(length);
        let behind = end.strip_prefix("</")?.strip_prefix(name)?.strip_prefix('>')?;
        self.reader.stream().consume(rest.len() - behind.len());
        self.leaf = Some(text);
        Some(name)
    }

    /// The text of the child that was named last, to its end.
    pub(super) fn text(&mut self) -> Result<Cow<'a, str>, Fault> {
        if std::mem::take(&mut self.hollow) {
            return Ok(Cow::Borrowed(""));
        }
        if let Some(text) = self.leaf.take() {
            let at = self.at();
            return unescape(text).map_err(|error| Fault::Malformed { at, why: shorten(&error.to_string(), 128).into() });
        }
        let mut whole = String::new();
        loop {
            let at = self.at();
            match self.event()? {
                Event::Text(piece) => whole.push_str(&piece),
                Event::CData(piece) => whole.push_str(&piece.into_inner()),
                Event::GeneralRef(reference) => {
                    let escaped = format!("&{};", shorten(&reference, 64));
                    let piece =
                        unescape(&escaped).map_err(|error| Fault::Malformed { at, why: shorten(&error.to_string(), 128).into() })?;
                    whole.push_str(&piece);
                }
                Event::Comment(_) | Event::PI(_) => {}
                Event::End(_) => {
                    self.depth -= 1;
                    return Ok(Cow::Owned(whole));
                }
                Event::Eof => return Err(self.malformed("it is cut short")),
                _ => return Err(self.malformed("an element within a text")),
            }
            if whole.len() > LONGEST {
                return Err(self.malformed("a text without an end"));
            }
        }
    }

    /// Passes over the child that was named last, whatever is in it.
    pub(super) fn skip(&mut self) -> Result<(), Fault> {
        if std::mem::take(&mut self.hollow) || self.leaf.take().is_some() {
            return Ok(());
        }
        let outside = self.depth - 1;
        while self.depth > outside {
            match self.event()? {
                Event::Start(start) => drop(self.enter(&start)?),
                Event::End(_) => self.depth -= 1,
                Event::Eof => return Err(self.malformed("it is cut short")),
                Event::DocType(_) => return Err(self.malformed("a document type within it")),
                _ => {}
            }
        }
        Ok(())
    }

    /// A whole number: only digits, at most `u64::MAX`.
    pub(super) fn number(&mut self, element: &'static str) -> Result<u64, Fault> {
        let text = self.text()?;
        let digits = Some(text.trim_ascii()).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| Fault::Bad { element, text: shorten(&text, 64).into() })
    }

    pub(super) fn truth(&mut self, element: &'static str) -> Result<bool, Fault> {
        truth(&self.text()?, element)
    }

    /// The whole of it.
    pub(super) fn document(&self) -> &'a str {
        self.document
    }

    fn malformed(&self, why: impl Into<String>) -> Fault {
        Fault::Malformed { at: self.at(), why: why.into() }
    }

    fn enter(&mut self, start: &BytesStart<'a>) -> Result<&'a str, Fault> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.malformed("too many elements within one another"));
        }
        self.name(start, ">".len())
    }

    fn enter_hollow(&mut self, start: &BytesStart<'a>) -> Result<&'a str, Fault> {
        self.hollow = true;
        self.name(start, "/>".len())
    }

    /// The name lies in the document before where the reader stands; the event would lend it only for itself.
    fn name(&self, start: &BytesStart<'a>, behind: usize) -> Result<&'a str, Fault> {
        let from = self.at().checked_sub(start.len() + behind);
        let name = from.and_then(|from| self.document.get(from..from + start.name().as_ref().len()));
        let name = name.filter(|name| *name == start.name().as_ref()).ok_or_else(|| self.malformed("an element without a name"))?;
        Ok(name.rsplit_once(':').map_or(name, |(_, local)| local))
    }

    fn event(&mut self) -> Result<Event<'a>, Fault> {
        self.reader.read_event().map_err(|error| Fault::Malformed { at: self.at(), why: shorten(&error.to_string(), 128).into() })
    }

    /// Bytes of the document that were read.
    fn at(&self) -> usize {
        self.document.len() - self.reader.get_ref().len()
    }
}

pub(super) fn truth(text: &str, element: &'static str) -> Result<bool, Fault> {
    match text.trim_ascii() {
        "true" | "True" | "TRUE" | "1" => Ok(true),
        "false" | "False" | "FALSE" | "0" | "" => Ok(false),
        _ => Err(Fault::Bad { element, text: shorten(text, 64).into() }),
    }
}
