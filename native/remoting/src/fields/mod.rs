//! Typed headers: the header fields of one request or response, read once into a struct of borrowed
//! texts and numbers. Errors name the field.
//!
//! A field that is absent and one that is empty are the same for numbers and booleans; in the binary
//! header they are the same for texts too.

pub mod client;
pub mod offset;
pub mod pull;
pub mod route;
pub mod send;
pub mod topic;

use crate::{FieldError, Fields};

/// A type that a header field can have.
pub trait Slot<'a>: Sized {
    /// Reads it from the value found, if one was.
    ///
    /// # Errors
    /// It is required and absent, or does not parse.
    fn read(field: &'static str, found: Option<&'a str>) -> Result<Self, FieldError>;

    /// Writes it, unless it is an absent option.
    fn write(&self, field: &'static str, fields: &mut Fields);
}

fn illegal(field: &'static str, value: &str) -> FieldError {
    FieldError {
        field,
        value: Some(value.chars().take(64).collect()),
    }
}

impl<'a> Slot<'a> for &'a str {
    fn read(field: &'static str, found: Option<&'a str>) -> Result<Self, FieldError> {
        found.ok_or(FieldError { field, value: None })
    }

    fn write(&self, field: &'static str, fields: &mut Fields) {
        fields.set(field, self);
    }
}

impl<'a> Slot<'a> for Option<&'a str> {
    fn read(_field: &'static str, found: Option<&'a str>) -> Result<Self, FieldError> {
        Ok(found)
    }

    fn write(&self, field: &'static str, fields: &mut Fields) {
        if let Some(value) = self {
            fields.set(field, value);
        }
    }
}

macro_rules! parsed {
    ($($kind:ty => $parse:expr;)*) => {$(
        impl<'a> Slot<'a> for $kind {
            fn read(field: &'static str, found: Option<&'a str>) -> Result<Self, FieldError> {
                <Option<$kind> as Slot<'a>>::read(field, found)?.ok_or(FieldError { field, value: None })
            }

            fn write(&self, field: &'static str, fields: &mut Fields) {
                fields.put(field, self);
            }
        }

        impl<'a> Slot<'a> for Option<$kind> {
            fn read(field: &'static str, found: Option<&'a str>) -> Result<Self, FieldError> {
                let Some(text) = found.filter(|text| !text.is_empty()) else { return Ok(None) };
                let parse: fn(&str) -> Option<$kind> = $parse;
                parse(text).map(Some).ok_or_else(|| illegal(field, text))
            }

            fn write(&self, field: &'static str, fields: &mut Fields) {
                if let Some(value) = self {
                    fields.put(field, value);
                }
            }
        }
    )*};
}

parsed! {
    i32 => |text| text.parse().ok();
    i64 => |text| text.parse().ok();
    // As Java's `Boolean.parseBoolean`: whatever is not "true" is false.
    // The C++ client writes 1 and 0.
    bool => |text| Some(text.eq_ignore_ascii_case("true") || text == "1");
}

/// Defines typed headers. A field is required unless its type is an option; alternatives after a bar
/// are other names of the same field.
macro_rules! headers {
    ($(
        $(#[$meta:meta])*
        $name:ident $(<$life:lifetime>)? {
            $( $(#[$field_meta:meta])* $field:ident: $kind:ty = $wire:literal $(| $other:literal)*, )*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name $(<$life>)? {
            $( $(#[$field_meta])* pub $field: $kind, )*
        }

        impl $(<$life>)? $name $(<$life>)? {
            /// Reads it from a command's header fields.
            ///
            /// # Errors
            /// A required field is absent, or one does not parse.
            pub fn read(fields: & $($life)? crate::Fields) -> Result<Self, crate::FieldError> {
                $( let mut $field: Option<&str> = None; )*
                for (name, value) in fields.iter() {
                    match name {
                        $( $wire $(| $other)* => $field = Some(value), )*
                        _ => {}
                    }
                }
                Ok(Self {
                    $( $field: crate::fields::Slot::read($wire, $field)?, )*
                })
            }

            /// Writes it into header fields, under the first name of each.
            pub fn write(&self, fields: &mut crate::Fields) {
                $( crate::fields::Slot::write(&self.$field, $wire, fields); )*
            }
        }
    )*};
}
pub(crate) use headers;
