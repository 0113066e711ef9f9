//! A device of a host, for which no disk is read or written: by SFTP, or by FTP.

use std::io::Read;
use std::ops::Range;

use haul_core::Result;
use haul_core::entry::Name;
use haul_ssh::sftp;

#[derive(Debug)]
pub enum Device {
    Sftp(sftp::Device),
    Ftp(haul_ftp::Device),
}

/// The same, for one file.
#[derive(Debug)]
pub enum Stream {
    Sftp(sftp::Stream),
    Ftp(haul_ftp::Stream),
}

impl Device {
    /// Channels or connections that it is open in.
    pub fn channels(&self) -> usize {
        match self {
            Device::Sftp(device) => device.channels(),
            Device::Ftp(device) => device.channels(),
        }
    }

    pub fn stream(&self) -> Stream {
        match self {
            Device::Sftp(device) => Stream::Sftp(device.stream()),
            Device::Ftp(device) => Stream::Ftp(device.stream()),
        }
    }
}

impl Stream {
    /// `name` is for errors.
    pub fn read<'a>(&self, name: &'a Name, at: Range<u64>) -> Box<dyn Read + Send + 'a> {
        match self {
            Stream::Sftp(stream) => stream.read(name, at),
            Stream::Ftp(stream) => stream.read(name, at),
        }
    }

    /// Calls `taken` with the bytes that the host has acknowledged.
    pub fn write(&self, at: Range<u64>, from: &mut dyn Read, taken: &mut dyn FnMut(u64)) -> Result<()> {
        match self {
            Stream::Sftp(stream) => stream.write(at, from, taken),
            Stream::Ftp(stream) => stream.write(at, from, taken),
        }
    }
}
