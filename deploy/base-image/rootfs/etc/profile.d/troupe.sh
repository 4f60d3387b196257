# Sane surroundings for a login from anywhere: a locale that exists and a terminal the programs here know.
if [ -z "${LANG:-}" ] || { [ "$LANG" != C.UTF-8 ] && [ ! -e /usr/lib/locale/locale-archive ]; }; then
  # In this order: the shell complains about every change while LANG names a locale that is not there.
  export LANG=C.UTF-8
  unset LC_ALL LC_CTYPE LC_MESSAGES LC_TIME LC_NUMERIC LC_COLLATE LC_MONETARY
fi
if [ -n "${TERM:-}" ] && { [ -d /lib/terminfo ] || [ -d /usr/share/terminfo ]; }; then
  first=${TERM%"${TERM#?}"}
  [ -e "/lib/terminfo/$first/$TERM" ] || [ -e "/usr/share/terminfo/$first/$TERM" ] || export TERM=xterm-256color
  unset first
fi
