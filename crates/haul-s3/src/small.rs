//! Small objects: one request each, several at the same time.

use std::io::Read;
use std::time::Instant;

use haul_core::bundle::{Bundle, Item, Outcome};
use haul_core::entry::{Entry, Kind, MetaMask};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::WriteOutcome;

use super::put_options::pairs;
use super::{Objects, attributes, source};
use haul_net::http_client::agent::read_error;
use haul_net::http_client::parallel::in_parallel;

const AT_ONCE: usize = 4;
/// An object larger than this is none for a bundle, whatever it was listed as.
const SMALL_MOST: u64 = 16 << 20;

impl Objects {
    pub(super) fn get_small(&self, bundle: &mut Bundle) {
        let began = Instant::now();
        let Bundle { items, data, keep, follow, .. } = bundle;
        let wanted: Vec<usize> = (0..items.len()).filter(|i| matches!(items[*i].outcome, Outcome::Listed)).collect();
        let answers = in_parallel(&self.bucket.client.threads, &wanted, AT_ONCE, |i| self.get_one(&items[*i].entry, *keep, *follow));
        for (i, answer) in wanted.into_iter().zip(answers) {
            let item: &mut Item = &mut items[i];
            item.outcome = match answer {
                Ok((entry, bytes)) => {
                    let start = data.len();
                    data.extend_from_slice(&bytes);
                    item.at = start..data.len();
                    item.entry = entry;
                    Outcome::Read
                }
                Err(e) => Outcome::Failed(e.on(&item.entry.name)),
            };
        }
        bundle.spent.reading += began.elapsed();
    }

    fn get_one(&self, entry: &Entry, keep: MetaMask, follow: bool) -> Result<(Entry, Vec<u8>)> {
        if follow {
            let source = source::open(self, entry, true)?;
            let mut bytes = Vec::new();
            let size = source.stamp()?.size;
            if size > SMALL_MOST {
                return Err(Error::new(ErrorKind::Changed, "read"));
            }
            let read = source.read(0..size)?.read_to_end(&mut bytes);
            read.map_err(|e| Error::from_io(e, "read"))?;
            return Ok((entry.clone(), bytes));
        }
        let key = self.key(&entry.name, "open")?;
        let (head, mut answer) = self.bucket.get(&key, None, None)?;
        let mut found = self.entry_of(entry.name.clone(), &key, &head, keep)?;
        if found.kind != Kind::File || (!entry.is_bare() && found.stamp() != entry.stamp()) || head.size > SMALL_MOST {
            return Err(Error::new(ErrorKind::Changed, "read"));
        }
        let size = usize::try_from(head.size).unwrap_or_default();
        let mut bytes = Vec::with_capacity(size + 1);
        let read = answer.body.as_reader().take(head.size + 1).read_to_end(&mut bytes);
        read.map_err(|e| read_error("read", &e, "the service").tried(answer.tries))?;
        if bytes.len() != size {
            let e = Error::new(ErrorKind::Io, "read").remedy_is(haul_core::Remedy::Again);
            return Err(e.tried(answer.tries).because(format!("the answer has {} bytes, and {size} were announced", bytes.len())));
        }
        source::check_whole(&self.bucket, &head, &bytes).map_err(|e| e.tried(answer.tries))?;
        self.saw(&key, &head, None);
        found.headers = Some(source::headers_of(&self.bucket, &key, &head, self.options.map_keys)?);
        Ok((found, bytes))
    }

    pub(super) fn put_small(&self, bundle: &mut Bundle) {
        let began = Instant::now();
        let Bundle { items, data, keep, .. } = bundle;
        let wanted: Vec<usize> = (0..items.len()).filter(|i| matches!(items[*i].outcome, Outcome::Read)).collect();
        let answers = in_parallel(&self.bucket.client.threads, &wanted, AT_ONCE, |i| {
            self.put_one(&items[*i].entry, &data[items[*i].at.clone()], *keep)
        });
        for (i, answer) in wanted.into_iter().zip(answers) {
            let item: &mut Item = &mut items[i];
            item.outcome = match answer {
                Ok(landed) => Outcome::Written(landed),
                Err(e) => Outcome::Failed(e.on(&item.entry.name)),
            };
        }
        bundle.spent.writing += began.elapsed();
    }

    fn put_one(&self, entry: &Entry, bytes: &[u8], keep: MetaMask) -> Result<WriteOutcome> {
        let key = self.key(&entry.name, "write")?;
        self.touch(&key);
        let bucket = self.bucket.like(entry);
        bucket.options.can_copy_acl("write")?;
        let written = attributes::write(entry, keep, bucket.options.used()).of_its_kind("write")?;
        let metadata = pairs(written.headers);
        let put = bucket.put(&key, bytes, &metadata)?;
        self.wrote(&key, entry.size, &put, &metadata, None);
        Ok(WriteOutcome { refused: written.refused, ino: 0 })
    }
}
