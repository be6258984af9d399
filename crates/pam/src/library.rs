//! libpam itself, by `dlopen`. Declarations follow `security/pam_appl.h` and `security/_pam_types.h` of Linux-PAM, whose ABI has
//! not changed since 1.0.
//!
//! `unsafe` is here because the library is one of C: its functions are found by name, their types are promised by its headers,
//! and it calls back for the password with pointers of its own.

use crate::Verdict;
use libloading::{Library, Symbol};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;

/// The library's name, with the version of its ABI.
const LIBRARY: &str = "libpam.so.0";

const SUCCESS: c_int = 0;
const BUF_ERR: c_int = 5;
const CONV_ERR: c_int = 19;

/// `PAM_USER`, `PAM_RHOST`, `PAM_FAIL_DELAY`
const ITEM_USER: c_int = 2;
const ITEM_RHOST: c_int = 4;
const ITEM_FAIL_DELAY: c_int = 10;

/// `PAM_SILENT | PAM_DISALLOW_NULL_AUTHTOK`: no messages, and no account without a password.
const FLAGS: c_int = 0x8001;

const PROMPT_ECHO_OFF: c_int = 1;
const PROMPT_ECHO_ON: c_int = 2;

/// `pam_handle_t`
#[repr(C)]
struct Handle([u8; 0]);

/// `struct pam_message`
#[repr(C)]
struct Message {
    style: c_int,
    text: *const c_char,
}

/// `struct pam_response`
#[repr(C)]
struct Response {
    text: *mut c_char,
    /// Always 0.
    code: c_int,
}

/// `struct pam_conv`
#[repr(C)]
struct Conversation {
    converse: unsafe extern "C" fn(c_int, *mut *const Message, *mut *mut Response, *mut c_void) -> c_int,
    data: *mut c_void,
}

type Start = unsafe extern "C" fn(*const c_char, *const c_char, *const Conversation, *mut *mut Handle) -> c_int;
type StartIn = unsafe extern "C" fn(*const c_char, *const c_char, *const Conversation, *const c_char, *mut *mut Handle) -> c_int;
type SetItem = unsafe extern "C" fn(*mut Handle, c_int, *const c_void) -> c_int;
type GetItem = unsafe extern "C" fn(*const Handle, c_int, *mut *const c_void) -> c_int;
type Act = unsafe extern "C" fn(*mut Handle, c_int) -> c_int;
type InWords = unsafe extern "C" fn(*mut Handle, c_int) -> *const c_char;

/// The functions of libpam that are used.
struct Pam<'a> {
    set_item: Symbol<'a, SetItem>,
    get_item: Symbol<'a, GetItem>,
    authenticate: Symbol<'a, Act>,
    account: Symbol<'a, Act>,
    end: Symbol<'a, Act>,
    in_words: Symbol<'a, InWords>,
}

/// Answers the first prompt without an echo with the password, `data`. Modules that ask for more are refused: a request has no
/// more to tell.
///
/// # Safety
/// As `pam_conv(3)` promises: `messages` points to `count` messages, and `data` is that of [`Conversation`]. Linux-PAM keeps the
/// messages in an array of pointers.
unsafe extern "C" fn converse(
    count: c_int,
    messages: *mut *const Message,
    answers: *mut *mut Response,
    data: *mut c_void,
) -> c_int {
    let Ok(count) = usize::try_from(count) else { return CONV_ERR };
    // SAFETY: `check` passes a pointer to its password, which outlives the library's handle, and nothing else refers to it
    // meanwhile.
    let password = unsafe { &mut *data.cast::<Option<CString>>() };
    // SAFETY: a plain call. The library frees the memory by `free`, so it comes from libc.
    let memory = unsafe { libc::calloc(count.max(1), size_of::<Response>()) }.cast::<Response>();
    if memory.is_null() {
        return BUF_ERR;
    }
    for index in 0..count {
        // SAFETY: there are `count` messages, see above.
        let style = unsafe { (**messages.add(index)).style };
        let answer = match style {
            PROMPT_ECHO_OFF => match password.take() {
                // SAFETY: a string with its zero byte; the copy is libc's, as the library frees it.
                Some(password) => unsafe { libc::strdup(password.as_ptr()) },
                None => ptr::null_mut(),
            },
            PROMPT_ECHO_ON => ptr::null_mut(),
            // Messages to the user: there is nobody to read them.
            _ => continue,
        };
        if answer.is_null() {
            // SAFETY: the memory is of this call, and has `count` responses, whose texts are null or of `strdup`.
            unsafe {
                (0..index).for_each(|index| libc::free((*memory.add(index)).text.cast()));
                libc::free(memory.cast());
            }
            return CONV_ERR;
        }
        // SAFETY: the memory has `count` responses.
        unsafe { (*memory.add(index)).text = answer };
    }
    // SAFETY: the library asks for the answers there.
    unsafe { *answers = memory };
    SUCCESS
}

/// In the place of the library's pause after a wrong password: the caller has its own, which does not tell the reasons apart.
///
/// # Safety
/// None is needed: it touches nothing.
unsafe extern "C" fn no_delay(_status: c_int, _microseconds: c_uint, _data: *mut c_void) {}

/// Checks name and password by the service, which lies in `folder`, or where libpam has its services.
///
/// # Errors
/// When libpam cannot be used.
pub fn check(service: &CStr, folder: Option<&CStr>, user: &CStr, password: CString, from: &CStr) -> Result<Verdict, String> {
    // SAFETY: opening runs the library's initialisation, which Linux-PAM's has none of.
    let library = unsafe { Library::new(LIBRARY) }.map_err(|error| {
        format!("PAM cannot be used ({error}): install libpam0g; a statically linked stria cannot use it, and its users log in with tokens")
    })?;
    let missing = |error: libloading::Error| format!("{LIBRARY} is not as expected: {error}");
    let mut password = Some(password);
    let conversation = Conversation { converse, data: (&raw mut password).cast() };
    let mut handle = ptr::null_mut();
    // SAFETY: the types are those of the library's headers. Strings and the conversation outlive the handle, which `pam_end`
    // frees below.
    let (pam, started) = unsafe {
        let pam = Pam {
            set_item: library.get(b"pam_set_item\0").map_err(missing)?,
            get_item: library.get(b"pam_get_item\0").map_err(missing)?,
            authenticate: library.get(b"pam_authenticate\0").map_err(missing)?,
            account: library.get(b"pam_acct_mgmt\0").map_err(missing)?,
            end: library.get(b"pam_end\0").map_err(missing)?,
            in_words: library.get(b"pam_strerror\0").map_err(missing)?,
        };
        let (service, user) = (service.as_ptr(), user.as_ptr());
        let started = match folder {
            None => {
                library.get::<Start>(b"pam_start\0").map_err(missing)?(service, user, &raw const conversation, &raw mut handle)
            }
            Some(folder) => library.get::<StartIn>(b"pam_start_confdir\0").map_err(missing)?(
                service,
                user,
                &raw const conversation,
                folder.as_ptr(),
                &raw mut handle,
            ),
        };
        (pam, started)
    };
    if started != SUCCESS || handle.is_null() {
        return Err(format!("PAM does not start: status {started}"));
    }
    // SAFETY: the handle is open until `pam_end`, and only this thread has it. Items are copied, but for the function, which is
    // static.
    unsafe {
        let mut status = SUCCESS;
        if !from.is_empty() {
            status = (pam.set_item)(handle, ITEM_RHOST, from.as_ptr().cast());
        }
        if status == SUCCESS {
            status = (pam.set_item)(handle, ITEM_FAIL_DELAY, no_delay as *const c_void);
        }
        if status == SUCCESS {
            status = (pam.authenticate)(handle, FLAGS);
        }
        if status == SUCCESS {
            status = (pam.account)(handle, FLAGS);
        }
        let words = || {
            let words = (pam.in_words)(handle, status);
            if words.is_null() { format!("status {status}") } else { CStr::from_ptr(words).to_string_lossy().into_owned() }
        };
        let verdict = match status {
            SUCCESS => {
                let mut name = ptr::null();
                let status = (pam.get_item)(handle, ITEM_USER, &raw mut name);
                if status == SUCCESS && !name.is_null() {
                    Verdict::Right(CStr::from_ptr(name.cast()).to_string_lossy().into_owned())
                } else {
                    Verdict::Failed("PAM accepts the login, and names no account".into())
                }
            }
            CONV_ERR => Verdict::Wrong("a module asks for more than a password".into()),
            // Modules differ in what they call a wrong password: of pam_exec it is a system error.
            _ => Verdict::Wrong(words()),
        };
        (pam.end)(handle, status);
        Ok(verdict)
    }
}
