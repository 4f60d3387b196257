if [ -n "${BASH_VERSION:-}" ]; then
  . ~/.bashrc
else
  . /etc/profile.d/troupe.sh
fi
