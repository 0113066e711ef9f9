//! `data://NAME/CONTENT`: a file of this name with this content, as RFC 2397 writes it.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Stamp};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::place::provider::{Access, Provider};
use haul_core::place::{Host, Location, OpenOptions, Role, Scheme, Syntax};
use haul_core::store::{Caps, Flow, Place, Source, Store};
use percent_encoding::percent_decode;

pub const DATA: Scheme = Scheme(&Syntax {
    word: "data",
    help: "data://NAME/CONTENT: a file with this content, in which %xx is a byte; for reading",
    short: false,
    escapes: true,
    home: false,
    keys: false,
    parse: |scheme, text| {
        let at = text.iter().position(|byte| *byte == b'/').unwrap_or(text.len());
        let name = String::from_utf8_lossy(&text[..at]).into_owned();
        let content = percent_decode(text.get(at + 1..).unwrap_or_default()).collect();
        Ok(Location { scheme, user: None, host: Some(name), port: None, path: content, trailing_slash: false })
    },
});

#[derive(Debug)]
pub struct DataProvider;

impl Provider for DataProvider {
    fn schemes(&self) -> &'static [Scheme] {
        &[DATA]
    }

    fn host_key(&self, _access: &Access, location: &Location) -> String {
        location.to_string()
    }

    fn connect(&self, _access: &Access, location: &Location) -> Result<Arc<dyn Host>> {
        let name = location.host.clone().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Error::new(ErrorKind::Usage, "open").because("has no name").hint("write data://NAME/CONTENT"))?;
        Ok(Arc::new(File { name: name.into_bytes(), content: location.path.clone().into() }))
    }
}

/// The file: the only one of its host, and of the directory `/` there.
#[derive(Clone, Debug)]
struct File {
    name: Vec<u8>,
    content: Arc<[u8]>,
}

impl Host for File {
    fn path(&self, _location: &Location) -> Vec<u8> {
        [b"/", &self.name[..]].concat()
    }

    fn lookup(&self, path: &[u8]) -> Result<Option<Kind>> {
        Ok(if path == b"/" { Some(Kind::Dir) } else { (path[1..] == self.name).then_some(Kind::File) })
    }

    fn make_dir(&self, path: &[u8], _parents: bool) -> Result<bool> {
        Err(Error::new(ErrorKind::Unsupported, "mkdir").at(path).because("an address cannot be written to"))
    }

    fn open(&self, path: &[u8], options: OpenOptions) -> Result<Arc<dyn Store>> {
        if options.role == Role::Destination {
            return Err(Error::new(ErrorKind::Unsupported, "copy to").at(path).because("an address cannot be written to"));
        }
        let caps = Caps { remote: false, read_ranges: true, dirs: true, ..Caps::minimal() };
        let place = Place { scheme: "data", root: b"/".to_vec(), ..Place::default() };
        Ok(Arc::new(Directory { file: self.clone(), caps, place }))
    }
}

#[derive(Debug)]
struct Directory {
    file: File,
    caps: Caps,
    place: Place,
}

impl Store for Directory {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn stat(&self, name: &Name, _want: MetaMask) -> Result<Entry> {
        let (kind, size) = match &name.path()[..] {
            b"" => (Kind::Dir, 0),
            path if path == self.file.name => (Kind::File, self.file.content.len() as u64),
            _ => return Err(Error::new(ErrorKind::NotFound, "stat").on(name)),
        };
        Ok(Entry { have: MetaMask::BASIC, size, ..Entry::bare(name.clone(), kind) })
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        each(self.stat(&Name::new(dir, &self.file.name), MetaMask::NONE));
        Ok(())
    }

    fn open(&self, entry: &Entry, _follow: bool) -> Result<Box<dyn Source>> {
        self.stat(&entry.name, MetaMask::NONE).map(|_| Box::new(Content(self.file.content.clone())) as Box<dyn Source>)
    }
}

struct Content(Arc<[u8]>);

impl Source for Content {
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        match self.0.get(at.start as usize..at.end as usize) {
            Some(part) => Ok(Box::new(part)),
            None => Err(Error::new(ErrorKind::Changed, "read")),
        }
    }

    fn stamp(&self) -> Result<Stamp> {
        Ok(Stamp { size: self.0.len() as u64, ..Stamp::default() })
    }
}
