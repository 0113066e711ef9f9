//! A prefix that is listed in ranges of keys: nobody knows how keys are spread, so a range of which a whole page was read is divided
//! when somebody has nothing to do.

use std::sync::atomic::Ordering;

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::pool::Item;
use haul_core::team::wire::{Cursor, put_bytes};

use super::scope::Scope;
use crate::inventory::{Line, Object};
use crate::pages;

/// Keys behind `after`, up to `until` and with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    pub after: Vec<u8>,
    pub until: Option<Vec<u8>>,
}

impl Item for Range {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.until.is_some())];
        put_bytes(&mut out, &self.after);
        put_bytes(&mut out, self.until.as_deref().unwrap_or_default());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Range> {
        let mut from = Cursor(bytes);
        let (ends, after, until) = (from.flag()?, from.bytes()?.to_vec(), from.bytes()?.to_vec());
        from.is_empty().then_some(Range { after, until: ends.then_some(until) })
    }

    fn is_open(&self) -> bool {
        true
    }
}

impl Scope {
    /// Calls `each` for the objects of a range, in the order of keys. While `wants`, the upper halves of what is left go to `give`.
    ///
    /// # Errors
    /// What the service answers, and a listing that goes round.
    pub fn read_range(&self, range: Range, wants: &dyn Fn() -> bool, give: &dyn Fn(Range), each: &mut dyn FnMut(&Object)) -> Result<()> {
        let (bucket, prefix) = (self.bucket(), self.prefix());
        let from_start = &bucket.client.from_start;
        let Range { after, mut until } = range;
        let mut token: Option<String> = None;
        loop {
            let begin = if token.is_none() { &after[..] } else { b"" };
            let (lines, page) = bucket.read_lines(&bucket.page(prefix, false, token.as_deref(), begin, 1000)?)?;
            let objects = lines.into_iter().filter_map(Line::object).filter(|object| object.key.starts_with(prefix));
            let objects: Vec<Object> = objects.collect();
            let behind = |key: &[u8]| until.as_ref().is_some_and(|until| *key > until[..]);
            objects.iter().filter(|object| object.key > after && !behind(&object.key)).for_each(&mut *each);
            if token.is_none() && objects.first().is_some_and(|first| first.key <= after) {
                // It begins at the start whatever it is asked: each further range would cost all pages before it.
                from_start.store(true, Ordering::Relaxed);
            }
            let last = objects.last().map(|last| last.key.clone());
            if !page.truncated || last.as_ref().is_some_and(|last| behind(last)) {
                return Ok(());
            }
            let broken = |reason: &str| Error::new(ErrorKind::Other, "list").because(reason.to_string());
            let next = page.token.ok_or_else(|| broken("the listing is truncated and has no continuation token"))?;
            if token.as_ref() == Some(&next) {
                return Err(broken("the listing repeats its continuation token"));
            }
            token = Some(next);
            if let Some(last) = last.filter(|last| *last > after)
                && !from_start.load(Ordering::Relaxed)
                && wants()
                && let Some(middle) = pages::middle(&last, until.as_deref().unwrap_or(&pages::after_all(prefix)))
            {
                give(Range { after: middle.clone(), until: until.replace(middle) });
            }
        }
    }
}
