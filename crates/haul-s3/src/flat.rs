//! Flat listings of a prefix: a page from any position, and all objects below it.

use std::sync::atomic::Ordering;

use haul_core::entry::Time;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Flow;

use super::Bucket;
use super::inventory::{Line, Object};
use super::pages::{Page, Pager, Pages, Step, after_all, behind};

/// A page as it was answered.
#[derive(Debug)]
pub(super) struct FlatPage {
    pub page: Page,
    /// Metadata were asked for.
    pub metadata: bool,
    /// The service's time of the answer.
    pub now: Option<Time>,
}

impl Bucket {
    /// The page of objects below `prefix` that begins at a position, with their metadata where the service lists them.
    pub(super) fn flat_objects(&self, prefix: &[u8], at: &[u8], token: Option<&str>, metadata: bool) -> Result<FlatPage> {
        let wrong = |why| Error::new(ErrorKind::Other, "list").because(why);
        let after = if at == prefix { &b""[..] } else { at.strip_suffix(b"\0").unwrap_or(at) };
        let text = String::from_utf8_lossy(after);
        let mut token = token.map(str::to_owned);
        let mut last = if token.is_some() { after.to_vec() } else { Vec::new() };
        loop {
            let begins = match &token {
                Some(token) => Some(("continuation-token", token.as_str())),
                None => Some(("start-after", &*text)).filter(|_| !text.is_empty()),
            };
            let more: Vec<_> = [("metadata", "true")].into_iter().filter(|_| metadata).chain(begins).collect();
            let (body, now) = self.page(prefix, 1000, &more)?;
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
            return Ok(FlatPage { page: Page { start: at.to_vec(), until, objects, token: next }, metadata, now });
        }
    }

    /// All objects below `prefix` in the order of their keys, a page at a time; a large prefix is read in ranges side by side. What
    /// is read ahead waits in memory, and beyond some MiB in a file.
    pub(super) fn each_below(&self, prefix: &[u8], each: &mut dyn FnMut(Vec<Line>) -> Flow) -> Result<()> {
        let pages = Pages::new(std::env::temp_dir());
        let anywhere = || !self.client.from_start.load(Ordering::Relaxed);
        let fetch = |at: &[u8], token: Option<&str>| self.flat_objects(prefix, at, token, false).map(|answer| answer.page);
        let pager = Pager { pages: &pages, threads: &self.client.threads, anywhere: &anywhere, fetch: &fetch, reuse: true, once: true };
        pager.each(prefix, &mut |page, at| {
            let lines = page.objects[page.at(at)..].iter().cloned().map(Line::Object);
            match each(lines.collect()) {
                Flow::Stop => Step::Stop,
                _ => Step::Next,
            }
        })
    }
}
