/** Buttons, and links that look like them. */
import './button.css';
import { type IconNode, LoaderCircle, Plus } from 'lucide';
import type { ComponentChildren } from 'preact';
import { useId, useRef } from 'preact/hooks';
import { Icon } from './icon.tsx';
import { offlineReason } from './offline.ts';
import { Tip } from './tip.tsx';

/** What buttons and links share. */
interface ButtonLook {
  readonly kind?: 'main' | 'plain' | 'bare' | 'danger';
  readonly icon?: IconNode;
  readonly iconSize?: number;
  readonly big?: boolean;
  /** What a button without words is called. */
  readonly label?: string | undefined;
  readonly class?: string;
  readonly children?: ComponentChildren;
}

interface ButtonProps extends ButtonLook {
  readonly type?: 'button' | 'submit';
  readonly onClick?: ((event: MouseEvent) => void) | undefined;
  /**
   * Whether what it asks the platform for is under way: pressing it again does nothing. A button that has this asks
   * the platform, and cannot while the browser is offline.
   */
  readonly busy?: boolean;
  /** Why it cannot be done now. The button stays in its place and says so: it can still have the focus. */
  readonly reason?: string | undefined;
  /** The id of an element that says the reason, where one does already. */
  readonly describedBy?: string | undefined;
  /** Whether what it opens is open. */
  readonly expanded?: boolean;
  readonly pressed?: boolean;
  readonly popoverTarget?: string;
  readonly autofocus?: boolean;
}

export function Button(props: ButtonProps) {
  const { type = 'button', busy = false, describedBy, onClick } = props;
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const reason = props.reason ?? offlineReason(props.busy !== undefined);
  const isOff = reason !== undefined;
  const press = (event: MouseEvent) => {
    if (!isOff && !busy) onClick?.(event);
    // Not the form either.
    else event.preventDefault();
  };
  const look = (
    <button
      ref={button}
      class={lookOf(props)}
      type={type}
      onClick={press}
      aria-label={props.label}
      aria-disabled={isOff ? true : undefined}
      aria-busy={busy ? true : undefined}
      aria-describedby={describedBy ?? (isOff ? id : undefined)}
      aria-expanded={props.expanded}
      aria-pressed={props.pressed}
      popovertarget={props.popoverTarget}
      autofocus={props.autofocus}
      title={reason ?? props.label}
    >
      <Inside {...props} busy={busy} />
    </button>
  );
  return (
    <>
      {look}
      {isOff && describedBy === undefined && <Tip id={id} text={reason} of={button} />}
    </>
  );
}

interface AddButtonProps extends Pick<ButtonProps, 'onClick' | 'reason'> {
  readonly name: string;
  readonly kind?: 'main' | 'bare';
}

/** Begins something new. */
export function AddButton({ name, kind = 'main', ...more }: AddButtonProps) {
  return (
    <Button kind={kind} icon={Plus} {...more}>
      {name}
    </Button>
  );
}

interface LinkButtonProps extends ButtonLook {
  readonly href: string;
  readonly download?: string;
  /** Opens beside the console, which knows nothing of it. */
  readonly outside?: boolean;
}

export function LinkButton(props: LinkButtonProps) {
  const outside = props.outside ? { target: '_blank', rel: 'noopener' } : {};
  return (
    <a
      class={lookOf(props)}
      href={props.href}
      aria-label={props.label}
      title={props.label}
      download={props.download}
      {...outside}
    >
      <Inside {...props} />
    </a>
  );
}

function Inside({ icon, iconSize, busy, children }: ButtonLook & { readonly busy?: boolean }) {
  return (
    <>
      {busy ? (
        <span class="spin">
          <Icon of={LoaderCircle} size={iconSize ?? 16} />
        </span>
      ) : (
        icon && <Icon of={icon} size={iconSize ?? 16} />
      )}
      {children}
    </>
  );
}

function lookOf({ kind = 'plain', big, children, class: more }: ButtonLook): string {
  const parts = [
    'btn',
    kind === 'plain' ? '' : kind,
    big ? 'big' : '',
    children === undefined ? 'icon' : '',
    more ?? '',
  ];
  return parts.filter((part) => part !== '').join(' ');
}
