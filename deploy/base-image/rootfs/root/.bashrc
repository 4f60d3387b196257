. /etc/profile.d/troupe.sh

# What follows is for people only.
case $- in
*i*) ;;
*) return ;;
esac

HISTCONTROL=ignoreboth
HISTSIZE=10000
HISTFILESIZE=20000
shopt -s histappend checkwinsize

case $TERM in
dumb) PS1='\u@\h:\w\$ ' ;;
*) PS1='\[\e[32m\]\u@\h\[\e[0m\]:\[\e[34m\]\w\[\e[0m\]\$ ' ;;
esac

alias ls='ls --color=auto' grep='grep --color=auto' ll='ls -alF'
export LESS=-R EDITOR=nano
[ -r /usr/share/bash-completion/bash_completion ] && . /usr/share/bash-completion/bash_completion
