//! Flat listings of a prefix: a page from any position, and all objects below it.

use std::sync::atomic::Ordering;

use haul_core::entry::Time;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Flow;

use super::Bucket;
use super::inventory::{Line, Object};
use super::pages::{Listed, Page, Pager, Pages, Step, after_all, behind};

/// Objects of a page.
#[derive(Debug)]
pub(super) struct FlatPage {
    pub objects: Vec<Object>,
    /// All keys before this position are in the page, or in one before it.
    pub until: Vec<u8>,
    /// Continues the listing there.
    pub token: Option<String>,
    /// Their metadata were asked for.
    pub metadata: bool,
    /// The service's time of the answer.
    pub now: Option<Time>,
}

impl Bucket {
    /// The page of objects below `prefix` that begins at a position, with their metadata where the service lists them.
    pub(super) fn flat_objects(&self, prefix: &[u8], at: &[u8], token: Option<&str>, metadata: bool) -> Result<FlatPage> {
        let wrong = |why| Error::new(ErrorKind::Other, "list").because(why);
        let after = if at == prefix { &b""[..] } else { at.strip_suffix(b"\0").unwrap_or(at) };
        let mut token = token.map(str::to_owned);
        let mut last = if token.is_some() { after.to_vec() } else { Vec::new() };
        loop {
            let begins = if token.is_some() { &b""[..] } else { after };
            let (body, now) = self.flat_page(prefix, token.as_deref(), begins, metadata)?;
            let (lines, page) = self.read_lines(&body)?;
            let mut objects: Vec<Object> = lines.into_iter().filter_map(Line::object).collect();
            if objects.iter().any(|object| !object.key.starts_with(prefix) || object.key.is_empty()) {
                return Err(wrong("the service lists keys outside of the prefix"));
            }
            if objects.first().is_some_and(|first| first.key <= last && !last.is_empty()) {
                // A listing that goes round would never end.
                return Err(wrong("the service lists keys out of order"));
            }
            if page.truncated && page.token.is_none() {
                return Err(wrong("the listing is truncated and has no continuation token"));
            }
            let next = page.token.filter(|_| page.truncated);
            if next.is_some() && next == token {
                return Err(wrong("the listing repeats its continuation token"));
            }
            let (first, end) = (objects.first().map(|first| first.key.clone()), objects.last().map(|last| behind(&last.key)));
            if first.is_some_and(|first| &first[..] < at) {
                self.client.from_start.store(true, Ordering::Relaxed);
            }
            let is_before = end.as_ref().is_none_or(|end| &end[..] <= at);
            if let Some(next) = next.as_ref().filter(|_| is_before) {
                // It began at the start, or had nothing but prefixes: what is asked for comes later.
                last = end.map_or(last, |mut end| {
                    end.pop();
                    end
                });
                token = Some(next.clone());
                continue;
            }
            let until = end.filter(|_| next.is_some()).unwrap_or_else(|| after_all(prefix));
            objects.retain(|object| &object.key[..] >= at);
            return Ok(FlatPage { objects, until, token: next, metadata, now });
        }
    }

    /// All objects below `prefix` in the order of their keys, a page at a time; a large prefix is read in ranges side by side. What
    /// is read ahead waits in memory, and beyond some MiB in a file.
    pub(super) fn each_below(&self, prefix: &[u8], each: &mut dyn FnMut(Vec<Line>) -> Flow) -> Result<()> {
        let pages = Pages::new(std::env::temp_dir());
        let anywhere = || !self.client.from_start.load(Ordering::Relaxed);
        let fetch = |at: &[u8], token: Option<&str>| {
            let FlatPage { objects, until, token, .. } = self.flat_objects(prefix, at, token, false)?;
            Ok(Page { start: at.to_vec(), until, objects: objects.into_iter().map(listed).collect(), token })
        };
        let pager = Pager { pages: &pages, threads: &self.client.threads, anywhere: &anywhere, fetch: &fetch, reuse: true, once: true };
        pager.each(prefix, &mut |page, at| {
            let lines = page.objects[page.at(at)..].iter().map(|listed| Line::Object(object(listed)));
            match each(lines.collect()) {
                Flow::Stop => Step::Stop,
                _ => Step::Next,
            }
        })
    }
}

fn listed(object: Object) -> Listed {
    let Object { key, size, etag, modified, class, .. } = object;
    Listed { key, size, etag, modified: modified.unwrap_or_default(), class, details: None }
}

fn object(listed: &Listed) -> Object {
    let Listed { key, size, etag, modified, class, .. } = listed.clone();
    Object { key, size, etag, modified: Some(modified).filter(|modified| *modified != Time::default()), class, metadata: None }
}
