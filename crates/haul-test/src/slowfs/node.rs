//! The files that the kernel knows of, and those it has open.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fuser::{FileType, INodeNo};
use haul_core::lock::lock;
use rustix::io::Errno;

/// A file that the kernel knows of. Its descriptor (O_PATH) keeps the backing inode alive, so that a number names one file only.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) descriptor: OwnedFd,
    /// The last component under which it was found last.
    pub(super) name: Vec<u8>,
}

impl Node {
    /// A path that reopens exactly this file, whatever its name is by now.
    pub(super) fn proc_path(&self) -> String {
        format!("/proc/self/fd/{}", self.descriptor.as_raw_fd())
    }
}

/// An open file or directory.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) file: OwnedFd,
    pub(super) name: Vec<u8>,
    pub(super) writes: bool,
    pub(super) listing: Mutex<Vec<(u64, FileType, Vec<u8>)>>,
}

/// Both tables. Inode numbers are those of the backing file system, but for the root.
#[derive(Debug)]
pub(super) struct Nodes {
    nodes: Mutex<HashMap<u64, (Arc<Node>, u64)>>,
    handles: Mutex<HashMap<u64, Arc<Handle>>>,
    next_handle: AtomicU64,
}

impl Nodes {
    pub(super) fn new(root: OwnedFd) -> Nodes {
        let root = Arc::new(Node { descriptor: root, name: Vec::new() });
        Nodes { nodes: Mutex::new(HashMap::from([(1, (root, 1))])), handles: Mutex::default(), next_handle: AtomicU64::new(1) }
    }

    pub(super) fn get(&self, number: INodeNo) -> Result<Arc<Node>, Errno> {
        lock(&self.nodes).get(&number.0).map(|(node, _)| node.clone()).ok_or(Errno::STALE)
    }

    /// Notes one more look-up of this file.
    pub(super) fn found(&self, number: u64, descriptor: OwnedFd, name: &[u8]) {
        let node = Arc::new(Node { descriptor, name: name.to_vec() });
        let mut nodes = lock(&self.nodes);
        let lookups = nodes.get(&number).map_or(0, |(_, lookups)| *lookups);
        nodes.insert(number, (node, lookups + 1));
    }

    pub(super) fn forget(&self, number: INodeNo, lookups: u64) {
        let mut nodes = lock(&self.nodes);
        if let Some((_, known)) = nodes.get_mut(&number.0) {
            *known = known.saturating_sub(lookups);
            if *known == 0 && number != INodeNo::ROOT {
                nodes.remove(&number.0);
            }
        }
    }

    pub(super) fn open(&self, file: OwnedFd, name: &[u8], writes: bool) -> u64 {
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        let handle = Handle { file, name: name.to_vec(), writes, listing: Mutex::default() };
        lock(&self.handles).insert(number, Arc::new(handle));
        number
    }

    pub(super) fn handle(&self, number: u64) -> Result<Arc<Handle>, Errno> {
        lock(&self.handles).get(&number).cloned().ok_or(Errno::BADF)
    }

    pub(super) fn close(&self, number: u64) {
        lock(&self.handles).remove(&number);
    }
}
