//! The staging name of a file that is being written: what is at it, and how it becomes the file.

use std::sync::Arc;

use haul_core::entry::{Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::hash::Algorithm;
use haul_core::store::{Source, Spec, Token, WriteOutcome};

use super::change;
use super::paths::{checked, join};
use super::ranges_proof;
use super::source::FtpFile;
use super::store::Shared;
use haul_core::store::staging::is_staging;

pub struct Staged {
    pub shared: Arc<Shared>,
    pub name: Name,
    /// Its final path, and where it is written.
    pub target: Vec<u8>,
    pub path: Vec<u8>,
    pub token: Token,
    keep: MetaMask,
    pub size: u64,
    pub chunk: u64,
}

impl Staged {
    /// For a write that begins.
    pub fn create(shared: &Arc<Shared>, name: &Name, spec: &Spec<'_>) -> Result<Staged> {
        let leaf = checked(name, shared.features.names(), "create")?;
        let staging = shared.names.leaf(leaf, spec.entry.stamp());
        Staged::attach(shared, name, &Token(staging.into()), spec)
    }

    /// For one that goes on. The server is not asked.
    pub fn attach(shared: &Arc<Shared>, name: &Name, token: &Token, spec: &Spec<'_>) -> Result<Staged> {
        Ok(Staged {
            target: shared.exact(name, "create")?,
            path: join(&shared.dir(&name.dir, "create")?, leaf(token)?),
            shared: shared.clone(),
            name: name.clone(),
            token: token.clone(),
            keep: spec.keep,
            size: spec.entry.size,
            chunk: spec.chunk,
        })
    }

    /// Bytes that the server has of a write that goes on.
    /// Error: `NotFound` if there is no such file.
    pub fn reach(&self) -> Result<u64> {
        let there = self.shared.pool.take()?.look(&self.path, false, "attach")?;
        let lost = || Error::new(ErrorKind::NotFound, "attach").because("the staging name is no file");
        there.size.filter(|_| there.kind == Some(Kind::File)).ok_or_else(lost)
    }

    /// Gives the file its attributes and its name, if the server has as many bytes as there are to be.
    /// Error: `Corrupt` if it has not.
    pub fn commit(&self, entry: &Entry) -> Result<WriteOutcome> {
        const OP: &str = "commit";
        let mut session = self.shared.pool.take()?;
        let (size, landed) = self.shared.size_and_set(&mut session, &self.path, entry, self.keep)?;
        arrived(size, entry.size, OP)?;
        change::replace(&mut session, &self.path, &self.target, OP)?;
        Ok(landed)
    }

    pub fn digest(&self, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        self.shared.digest_at(&self.path, self.size, algorithm).map_err(|e| e.on(&self.name))
    }

    pub fn reread(&self) -> Result<Box<dyn Source>> {
        let staged = Entry::bare(Name::new(&self.name.dir, &self.token.0), Kind::File);
        Ok(Box::new(FtpFile::open(&self.shared, &staged, false).map_err(|e| e.renamed(&self.name))?))
    }
}

/// Whether all of a file is there.
pub fn arrived(there: Option<u64>, size: u64, op: &'static str) -> Result<()> {
    if there == Some(size) {
        return Ok(());
    }
    let has = there.map_or("an unknown number of".to_string(), |there| there.to_string());
    Err(Error::new(ErrorKind::Corrupt, op).because(format!("the server has {has} bytes of {size}")))
}

/// The staging leaf that a token names. Tokens come from journals.
fn leaf(token: &Token) -> Result<&[u8]> {
    match is_staging(&token.0) {
        true => Ok(&token.0),
        false => Err(Error::new(ErrorKind::BadName, "attach").because("the token is not the name of a staging file")),
    }
}

pub fn abandon(shared: &Shared, name: &Name, token: &Token) -> Result<()> {
    let path = join(&shared.dir(&name.dir, "remove")?, leaf(token)?);
    let mut session = shared.pool.take()?;
    // A trial that was killed with the write.
    change::remove_file(&mut session, &ranges_proof::beside(&shared.target(name, "remove")?), "remove")?;
    change::remove_file(&mut session, &path, "remove")
}
