//! stub
use std::{cmp::Ordering, collections::VecDeque, io, path::Path};
pub struct SpillQueue(VecDeque<Vec<u8>>);
impl SpillQueue {
    pub fn new(_: &Path, _: usize) -> Self {
        Self(VecDeque::new())
    }
    pub fn push(&mut self, r: &[u8]) -> io::Result<()> {
        self.0.push_back(r.to_vec());
        Ok(())
    }
    pub fn pop(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.pop_front())
    }
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }
}
pub struct SpillStack(Vec<Vec<u8>>);
impl SpillStack {
    pub fn new(_: &Path, _: usize) -> Self {
        Self(Vec::new())
    }
    pub fn push(&mut self, r: &[u8]) -> io::Result<()> {
        self.0.push(r.to_vec());
        Ok(())
    }
    pub fn pop(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.pop())
    }
}
pub struct Sorter(Vec<Vec<u8>>, fn(&[u8], &[u8]) -> Ordering);
impl Sorter {
    pub fn new(_: &Path, _: usize, c: fn(&[u8], &[u8]) -> Ordering) -> Self {
        Self(Vec::new(), c)
    }
    pub fn push(&mut self, r: &[u8]) -> io::Result<()> {
        self.0.push(r.to_vec());
        Ok(())
    }
    pub fn finish(mut self) -> io::Result<Sorted> {
        let c = self.1;
        self.0.sort_by(|a, b| c(a, b));
        Ok(Sorted(self.0.into_iter()))
    }
}
pub struct Sorted(std::vec::IntoIter<Vec<u8>>);
impl Iterator for Sorted {
    type Item = io::Result<Vec<u8>>;
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}
