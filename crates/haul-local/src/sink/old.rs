//! The old version of a file, as far as a new one is made of its parts: see [`Fill::reuse`](haul_core::store::Fill::reuse).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_core::entry::Stamp;
use haul_core::error::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;

use super::FileSink;
use crate::copy::{copy_range, write_all};
use crate::facts::look_at;
use crate::fail;
use crate::source::open_file;
use haul_core::lock::lock;

impl FileSink {
    /// The file that has the final name, if its stamp is `stamp`.
    fn old(&self, stamp: &Stamp) -> Result<Arc<OwnedFd>> {
        let mut old = lock(&self.old);
        match &*old {
            Some((fd, known)) if known == stamp => return Ok(fd.clone()),
            Some(_) => return Err(old_changed()),
            None => {}
        }
        let fd = open_file(&self.handle, &self.name.leaf, false)?;
        if look_at(&fd).map_err(|e| fail(e, "stat"))?.stamp() != *stamp {
            return Err(old_changed());
        }
        let fd = Arc::new(fd);
        *old = Some((fd.clone(), *stamp));
        Ok(fd)
    }

    /// Fills `at` with the bytes of that file from `from` on.
    pub(super) fn copy_old(&self, stamp: &Stamp, from: u64, at: Range<u64>) -> Result<()> {
        let old = self.old(stamp)?;
        let mut copied = 0;
        while copied < at.end - at.start {
            let (from, to) = (from + copied, at.start + copied);
            copied += match copy_range(&*old, from, &self.fd, to..at.end)? {
                0 => self.shared.with_buffer(|buffer| {
                    let wanted = usize::try_from(at.end - to).unwrap_or(usize::MAX).min(buffer.len());
                    match rustix::io::retry_on_intr(|| rustix::io::pread(&*old, &mut buffer[..wanted], from)) {
                        Ok(0) => Err(old_changed()),
                        Ok(count) => write_all(&self.fd, &buffer[..count], to).map(|()| count as u64).map_err(|e| fail(e, "write")),
                        Err(e) => Err(fail(e, "read")),
                    }
                })?,
                count => count,
            };
        }
        self.written.fetch_max(at.end, Ordering::Relaxed);
        Ok(())
    }

    /// All reused parts must be of one version of the old file.
    pub(super) fn old_is_the_same(&self) -> Result<()> {
        match &*lock(&self.old) {
            Some((fd, stamp)) if look_at(&**fd).map_err(|e| fail(e, "stat"))?.stamp() != *stamp => Err(old_changed()),
            _ => Ok(()),
        }
    }
}

fn old_changed() -> Error {
    Error::new(ErrorKind::Changed, "reuse").because("the destination's old file was changed while it was compared")
}
