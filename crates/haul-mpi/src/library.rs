//! The calls of MPI that haul needs. All of them are made by the one thread that has the value, which also began MPI: the library
//! needs no support of threads.

use std::ffi::{c_char, c_int};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use haul_core::error::{Error, ErrorKind, Result};
use mpi::ffi;

/// One tag does: messages say themselves what they are.
const TAG: c_int = 7;

/// MPI, begun. It stays in its thread.
pub struct Library {
    pub rank: u32,
    pub ranks: u32,
    world: ffi::MPI_Comm,
    here: PhantomData<*const ()>,
}

/// A message that MPI may still read from its buffer.
pub struct Sending {
    pub to: u32,
    request: ffi::MPI_Request,
    // Read by MPI, through its address.
    _buffer: Vec<u8>,
}

/// The codes of all ranks, under way.
pub struct Gathering {
    request: ffi::MPI_Request,
    own: Box<u8>,
    all: Vec<u8>,
}

/// What the library says of an error.
fn checked(code: c_int, op: &'static str) -> Result<()> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let mut text = vec![0u8; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut length: c_int = 0;
    // SAFETY: the buffer is as long as the library may write, and both outlive the call.
    let told = unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &raw mut length) };
    let length = if told == ffi::MPI_SUCCESS as c_int { usize::try_from(length).unwrap_or(0) } else { 0 };
    let text = String::from_utf8_lossy(text.get(..length).unwrap_or_default()).into_owned();
    Err(Error::new(ErrorKind::Broken, op).because(format!("MPI: {text} (code {code})")))
}

impl Library {
    /// Begins MPI, once per process. A library that cannot begin ends the process with its own message.
    ///
    /// # Errors
    /// `Broken`, in the library's words.
    pub fn begin() -> Result<Library> {
        // SAFETY: MPI takes null pointers for the arguments of main; nothing else has called it.
        checked(unsafe { ffi::MPI_Init(std::ptr::null_mut(), std::ptr::null_mut()) }, "start MPI")?;
        // SAFETY: a constant of the library, set before main.
        let world = unsafe { ffi::RSMPI_COMM_WORLD };
        let (mut rank, mut ranks): (c_int, c_int) = (0, 1);
        // SAFETY: MPI has begun, and the numbers outlive the calls.
        unsafe {
            checked(ffi::MPI_Comm_set_errhandler(world, ffi::RSMPI_ERRORS_RETURN), "start MPI")?;
            checked(ffi::MPI_Comm_rank(world, &raw mut rank), "start MPI")?;
            checked(ffi::MPI_Comm_size(world, &raw mut ranks), "start MPI")?;
        }
        let number = |n: c_int| u32::try_from(n).unwrap_or(0);
        Ok(Library { rank: number(rank), ranks: number(ranks).max(1), world, here: PhantomData })
    }

    /// Begins to send; MPI is done with the message when [`Library::is_sent`] says so.
    ///
    /// # Errors
    /// `Broken`, in the library's words.
    pub fn send(&self, to: u32, message: Vec<u8>) -> Result<Sending> {
        let length =
            c_int::try_from(message.len()).map_err(|_| Error::new(ErrorKind::Other, "send").because("a message of 2 GiB or more"))?;
        let peer = c_int::try_from(to).unwrap_or(-1);
        let mut request = MaybeUninit::uninit();
        // SAFETY: the heap of the buffer stays where it is, untouched, until the request is done: `Sending` keeps both.
        let sent =
            unsafe { ffi::MPI_Isend(message.as_ptr().cast(), length, ffi::RSMPI_UINT8_T, peer, TAG, self.world, request.as_mut_ptr()) };
        checked(sent, "send")?;
        // SAFETY: a call that succeeded has set it.
        Ok(Sending { to, request: unsafe { request.assume_init() }, _buffer: message })
    }

    /// # Errors
    /// `Broken`, in the library's words.
    pub fn is_sent(&self, sending: &mut Sending) -> Result<bool> {
        self.is_done(&mut sending.request, "send")
    }

    fn is_done(&self, request: &mut ffi::MPI_Request, op: &'static str) -> Result<bool> {
        let mut done: c_int = 0;
        // SAFETY: a request of this library, which is null once it was done.
        checked(unsafe { ffi::MPI_Test(request, &raw mut done, ffi::RSMPI_STATUS_IGNORE) }, op)?;
        Ok(done != 0)
    }

    /// The next message, if one has come.
    ///
    /// # Errors
    /// `Broken`, in the library's words.
    pub fn receive(&self) -> Result<Option<(u32, Vec<u8>)>> {
        let (mut here, mut length): (c_int, c_int) = (0, 0);
        let (mut message, mut status) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: what the calls write to outlives them, and is read only once they have said that there is a message. A matched
        // message is received by nobody else.
        unsafe {
            let (any, tag) = (ffi::RSMPI_ANY_SOURCE, TAG);
            let probed = ffi::MPI_Improbe(any, tag, self.world, &raw mut here, message.as_mut_ptr(), status.as_mut_ptr());
            checked(probed, "receive")?;
            if here == 0 {
                return Ok(None);
            }
            let status: ffi::MPI_Status = status.assume_init();
            checked(ffi::MPI_Get_count(&raw const status, ffi::RSMPI_UINT8_T, &raw mut length), "receive")?;
            let mut bytes = vec![0u8; usize::try_from(length).unwrap_or(0)];
            let to = bytes.as_mut_ptr().cast();
            checked(ffi::MPI_Mrecv(to, length, ffi::RSMPI_UINT8_T, message.as_mut_ptr(), ffi::RSMPI_STATUS_IGNORE), "receive")?;
            Ok(Some((u32::try_from(status.MPI_SOURCE).unwrap_or(0), bytes)))
        }
    }

    /// Begins to tell all ranks this one's code, and to learn theirs. Done when all ranks have begun it.
    ///
    /// # Errors
    /// `Broken`, in the library's words.
    pub fn gather(&self, code: u8) -> Result<Gathering> {
        let (own, mut all) = (Box::new(code), vec![0u8; self.ranks as usize]);
        let mut request = MaybeUninit::uninit();
        // SAFETY: both buffers are on the heap and stay until the request is done: `Gathering` keeps them.
        let begun = unsafe {
            let (from, to) = ((&raw const *own).cast(), all.as_mut_ptr().cast());
            ffi::MPI_Iallgather(from, 1, ffi::RSMPI_UINT8_T, to, 1, ffi::RSMPI_UINT8_T, self.world, request.as_mut_ptr())
        };
        checked(begun, "end")?;
        // SAFETY: a call that succeeded has set it.
        Ok(Gathering { request: unsafe { request.assume_init() }, own, all })
    }

    /// The codes of all ranks, when they are here.
    ///
    /// # Errors
    /// `Broken`, in the library's words.
    pub fn gathered(&self, gathering: &mut Gathering) -> Result<Option<Vec<u8>>> {
        let _ = gathering.own; // it belongs to MPI until then
        Ok(self.is_done(&mut gathering.request, "end")?.then(|| gathering.all.clone()))
    }

    /// Ends MPI. All ranks have to; the library waits for them with its processor busy, so that `gather` comes before.
    pub fn end(self) {
        // SAFETY: the last call, by the thread that made the first; nothing is under way.
        let _ = unsafe { ffi::MPI_Finalize() }; // nobody is left to hear of it
    }

    /// Ends all ranks now.
    pub fn abort(&self, code: u8) -> ! {
        // SAFETY: it does not return.
        unsafe { ffi::MPI_Abort(self.world, c_int::from(code)) };
        std::process::exit(i32::from(code))
    }
}

/// The library's name and version, in one line.
pub fn version() -> String {
    let mut text = vec![0u8; MOST_VERSION];
    let mut length: c_int = 0;
    // SAFETY: a constant of the library, and a call that is allowed before MPI begins; the buffer is as long as it may write.
    let told = unsafe {
        text.resize(usize::try_from(ffi::RSMPI_MAX_LIBRARY_VERSION_STRING).unwrap_or(MOST_VERSION) + 1, 0);
        ffi::MPI_Get_library_version(text.as_mut_ptr().cast::<c_char>(), &raw mut length)
    };
    let length = if told == ffi::MPI_SUCCESS as c_int { usize::try_from(length).unwrap_or(0) } else { 0 };
    let text = String::from_utf8_lossy(text.get(..length).unwrap_or_default()).into_owned();
    let line = text.lines().next().unwrap_or_default().split(", package").next().unwrap_or_default();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Of MPICH, the longest.
const MOST_VERSION: usize = 8192;
